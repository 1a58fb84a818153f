"""From one framework to another: the backend under judgement, and those beside it."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import unidev
from unidev.backends.discovery import backend_specs
from unidev.backends.loading import is_installed, load_backend, loaded_backends
from unidev.contract.backend import Unsupported
from unidev.contract.interop import HostInterop
from unidev.errors import SimulationError
from unidev.tensors.devices import devices_of
from unidev_conformance.judging.outcomes import NotApplicableError
from unidev_conformance.kit.inputs import drawing, samples
from unidev_conformance.kit.oracle import overlapping_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

    from unidev.contract.backend import Backend
    from unidev.device import Device
    from unidev_conformance.kit.inputs.drawing import Drawn
    from unidev_conformance.kit.oracle import Evidence

    Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Way:
    """From ``source`` to ``target``, one of which is under judgement."""

    source: Backend
    target: Backend

    def __str__(self) -> str:
        return f"{self.source.name} to {self.target.name}"

    def convert(self, x: Any, **options: Any) -> Any:
        """``x`` as a tensor of the target."""
        return unidev.convert(x, self.target.name, **options)

    def make(self, values: Array, dtype: str = "", device: Device | None = None) -> Any:
        """A tensor of the source; of NumPy's memory, aligned as all frameworks want it."""
        place, interop = device or self.source.cpu, self.source.interop
        if dtype and not samples.is_numpy_dtype(dtype):
            return unidev.array(values, dtype=dtype, device=place)
        if place.kind == "cpu" and isinstance(interop, HostInterop):
            return interop.tensor_of(samples.aligned(values, 0))
        return self.source.probe.make(values, place)

    def drawn(self, *, in_each: bool = False) -> Iterator[Drawn]:
        """Tensors drawn of the dtypes that both have on the CPU, not the largest, and scopes.

        With ``in_each``, small ones of each dtype in each layout.
        """
        layouts = drawing.layouts_of(self.source)
        scopes = [*devices_of(self.source), *devices_of(self.target)]
        few = self.source.probe.compiles_each_shape
        found = drawing.drawn(
            self.dtypes(), scopes, str(self), layouts=layouts, in_each=in_each, has_few_shapes=few
        )
        return (each for each in found if each.values.nbytes <= drawing.MIB)

    def dtypes(self) -> list[str]:
        """The names of the dtypes that both have on the CPU."""
        there = frozenset(self.target.dtypes_on(self.target.cpu))
        return [name for name in self.source.dtypes_on(self.source.cpu) if name in there]

    def laid_out(self, case: Drawn) -> Any:
        """The tensor of the source, in the layout that was drawn; of NumPy, as is on a host."""
        if self.source.spec.framework == "numpy" and case.layout == drawing.CONTIGUOUS:
            return case.on_host()[1]
        return case.laid_out(self.source.probe, self.make(case.values, case.dtype))

    def check_same(self, x: Any, y: Any, where: str, device: Device | None = None) -> None:
        """``y`` is a tensor of the target, with the shape, dtype and numbers of ``x``."""
        if self.source.spec.framework == "numpy":
            x = x.astype(x.dtype.newbyteorder("="), copy=False)
        assert issubclass(type(y), self.target.tensor_types), f"{where}: a {type(y).__name__}"
        if device is None:  # a class that unidev's own new tensors have
            with unidev.use_backend(self.target.name):
                own = type(unidev.ones(1, device=self.target.cpu))
            assert type(y) is own, f"{where}: a {type(y)}, not a {own}"
        assert tuple(y.shape) == tuple(x.shape), f"{where}: shape {tuple(y.shape)}"
        names = [n for n, own in self.source.dtypes.items() if own == x.dtype]
        assert [n for n in names if self.target.dtypes.get(n) == y.dtype], (
            f"{where}: dtype {y.dtype} instead of {x.dtype}"
        )
        found = unidev.device_of(y)
        wanted = device or self.target.cpu
        assert found is wanted, f"{where}: on {found!r}, not on {wanted!r}"
        before, after = self.source.probe.read(x), self.target.probe.read(y)
        assert after == before, f"{where}: other values: {after[:32]!r} instead of {before[:32]!r}"

    def shares(self, x: Any, y: Any) -> bool:
        """Whether a tensor of the source and one of the target have bytes in common."""
        mine, other = self.source.probe.extents(x), self.target.probe.extents(y)
        return overlapping_bytes(mine, other) > 0

    def can_share(self, dtype: str, *, is_read_only: bool = False) -> bool:
        """Whether contiguous, aligned memory of the CPU must be shared."""
        giver, taker = self.source.interop, self.target.interop
        if isinstance(giver, Unsupported) or isinstance(taker, Unsupported):
            return False
        return (
            dtype in giver.dtypes()
            and dtype in taker.dtypes()
            and (taker.keeps_read_only or not (is_read_only or self.gives_immutable))
        )

    @property
    def gives_immutable(self) -> bool:
        """Whether the source's own tensors cannot be written to."""
        return isinstance(self.source.probe.write, Unsupported)

    @property
    def takes_writes(self) -> bool:
        """Whether the target's tensors can be written to."""
        return not isinstance(self.target.probe.write, Unsupported)


def ways(backend: Backend, evidence: Evidence) -> list[Way]:
    """To and from NumPy, and each other framework that is installed with its plugin.

    Where GPUs are simulated, without those that cannot have as many, which ``evidence`` names.

    Raises:
        NotApplicableError: there is no other framework.
    """
    before, others = len(loaded_backends), []
    for name, spec in backend_specs().items():
        if spec.framework == backend.spec.framework or not is_installed(spec.framework):
            continue
        if backend.simulated_count and isinstance(spec.simulator, Unsupported):
            evidence.add("left out", f"{name}: {spec.simulator.reason}")
            continue
        try:
            others.append(load_backend(name))
        except SimulationError as refusal:
            evidence.add("left out", str(refusal))
    if len(loaded_backends) > before:
        gc.freeze()  # as at the start, of the backend itself: checks collect garbage often
    if not others:
        raise NotApplicableError("no other framework is installed beside it, not even NumPy")
    return [way for other in others for way in (Way(backend, other), Way(other, backend))]
