"""``Workbench``: what every check works with."""

from __future__ import annotations

import functools
from itertools import pairwise, permutations, product
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import unidev
from unidev.backends.description import resolve
from unidev.contract.backend import Unsupported
from unidev.contract.probe import Probe
from unidev.system.wording import shown
from unidev_conformance.judging.outcomes import NotApplicableError, require_ability
from unidev_conformance.kit.counting import TOLERANCE_BYTES, Counter
from unidev_conformance.kit.inputs import drawing, samples
from unidev_conformance.kit.oracle import Evidence, Oracle
from unidev_conformance.kit.subject import Refusal
from unidev_conformance.kit.ways import ways

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy as np

    from unidev.contract.backend import Backend
    from unidev.contract.hardware_probe import HardwareProbe
    from unidev.device import Device
    from unidev_conformance.kit.inputs.drawing import Drawn
    from unidev_conformance.kit.ways import Way

    Array = np.ndarray[Any, Any]

E = TypeVar("E", bound=BaseException)
T = TypeVar("T")


def need_probe(backend: Backend) -> None:
    """Every check uses the probe: an invalid one is reported once, not by each of them.

    Raises:
        Refusal: it is not a ``Probe``. Checks deal with a probe declared unsupported.
    """
    try:
        probe = backend.probe
    except Exception as error:  # a property may raise anything
        said = f"{type(error).__name__}: {error}"
        raise Refusal(
            "backend", f"the probe of backend {backend.name!r} is not available: {said}"
        ) from error
    if not isinstance(probe, (Probe, Unsupported)):
        raise Refusal(
            "backend",
            f"the probe of backend {backend.name!r} is not a unidev.Probe: it is {shown(probe)}.",
        )


class Workbench:
    """The backend under judgement, its probe and devices, and a place for evidence.

    Created anew for each check; its backend is selected already.
    """

    def __init__(self, backend: Backend, on_entry: Callable[[], None] | None = None) -> None:
        """``on_entry`` as for ``Evidence``."""
        self.backend = backend
        self.simulated = backend.simulated_count
        self.probe = backend.probe
        self.evidence = Evidence(on_entry)
        self.oracle = Oracle(self.probe, self.evidence)
        self._counters: dict[Device, Counter] = {}

    # -- devices ----------------------------------------------------------------------------------

    @property
    def devices(self) -> list[Device]:
        """Every device that the backend lists; all of them count as used by the check."""
        found = unidev.list_devices()
        if not found:  # a check that loops over none would pass
            raise AssertionError("the backend lists no device at all")
        self.evidence.touch(*found)
        return found

    @property
    def cpu(self) -> Device:
        """The host's device."""
        found = unidev.cpu()
        self.evidence.touch(found)
        return found

    def gpus(self) -> list[Device]:
        """The GPUs, at least one.

        Raises:
            NotApplicableError: there are none.
        """
        found = [device for device in self.devices if device.kind == "gpu"]
        if not found:
            raise NotApplicableError("there is no GPU in this configuration")
        return found

    def hardware_probe(self) -> HardwareProbe:
        """The probe's part for real GPUs.

        Raises:
            NotApplicableError: there is none.
        """
        found = self.probe.hardware
        if found is None:
            raise NotApplicableError("the backend's probe has no part for real GPUs")
        return found

    def real_gpus(self) -> list[Device]:
        """The GPUs that are hardware, at least one.

        Raises:
            NotApplicableError: they are simulated, or there are none.
        """
        if self.simulated:
            raise NotApplicableError("simulated: only hardware can show it")
        return self.gpus()

    def several(self, count: int) -> list[Device]:
        """All devices, at least ``count``.

        Raises:
            NotApplicableError: there are fewer.
        """
        found = self.devices
        if len(found) < count:
            raise NotApplicableError(f"the check needs {count} devices, and there are {len(found)}")
        return found

    def pairs(self) -> list[tuple[Device, Device]]:
        """Each ordered pair of different devices, at least one.

        Raises:
            NotApplicableError: there is only one device.
        """
        return list(permutations(self.several(2), 2))

    def all_pairs(self) -> Iterator[tuple[Device, Device]]:
        """Each ordered pair, including a device with itself."""
        return product(self.devices, self.devices)

    def ring(self) -> list[tuple[Device, Device]]:
        """Each device with itself and with the next, for slow checks that do not need all pairs."""
        found = self.devices
        following = pairwise([*found, found[0]])
        return list(dict.fromkeys([*((each, each) for each in found), *following]))

    def ends(self) -> list[Device]:
        """The first device and the last: as ``kinds_of_ways``, of one device."""
        return list(dict.fromkeys([self.devices[0], self.devices[-1]]))

    def kinds_of_ways(self) -> list[tuple[Device, Device]]:
        """The first way of the ring of each kind: for slow checks that do not depend on indices."""
        found: dict[tuple[str, str, bool], tuple[Device, Device]] = {}
        for one, other in self.ring():
            found.setdefault((one.kind, other.kind, one is other), (one, other))
        return list(found.values())

    def kinds_of_moves(self) -> list[tuple[Device, Device]]:
        """Those of ``kinds_of_ways`` that are between two devices.

        Raises:
            NotApplicableError: there is only one device.
        """
        self.several(2)
        return [(one, other) for one, other in self.kinds_of_ways() if one is not other]

    def neighbours(self) -> list[tuple[Device, Device]]:
        """Each device and the next, at least two.

        Raises:
            NotApplicableError: there is only one device.
        """
        self.several(2)
        return [(one, other) for one, other in self.ring() if one is not other]

    def ways(self) -> list[Way]:
        """To and from each other framework that is installed beside this one, at least NumPy."""
        return ways(self.backend, self.evidence)

    # -- tensors ----------------------------------------------------------------------------------

    def make(self, values: Array, device: Device) -> Any:
        """A tensor of these values, made with the framework's own calls."""
        self.evidence.touch(device)
        return self.probe.make(values, device)

    def matrix(self, device: Device, dtype: str = "float32") -> Any:
        """A small matrix."""
        return self.make(samples.counting((2, 3), dtype), device)

    def of_dtype(self, dtype: str, device: Device) -> Any:
        """A tensor of ``dtype`` whose bits reveal changes.

        NumPy has no bfloat16 to pass to the probe: such values are converted on the way.
        """
        if samples.is_numpy_dtype(dtype):
            return self.make(samples.telling_bits(dtype), device)
        return unidev.array([0.0, -0.0, 1.5, -2.0, float("inf")], dtype=dtype, device=device)

    def dtypes(self, *devices: Device) -> list[str]:
        """The names of the dtypes that each of these devices carries."""
        carried = [frozenset(self.backend.dtypes_on(device)) for device in devices]
        return [name for name in self.backend.dtypes if all(name in each for each in carried)]

    def drawn(
        self, *devices: Device, is_large: bool = True, in_each: bool = False
    ) -> Iterator[Drawn]:
        """Tensors drawn for these devices; without the largest, unless ``is_large``.

        With ``in_each``, small ones of each dtype in each layout that the probe makes.
        """
        found = drawing.drawn(
            self.dtypes(*devices), self.devices, ", ".join(map(str, devices)),
            layouts=self.layouts, in_each=in_each,
            has_few_shapes=self.probe.compiles_each_shape,
        )  # fmt: skip
        return (each for each in found if is_large or each.values.nbytes <= drawing.MIB)

    @functools.cached_property
    def layouts(self) -> tuple[str, ...]:
        """The layouts that the probe makes."""
        return drawing.layouts_of(self.backend)

    # -- errors -----------------------------------------------------------------------------------

    def expect(self, error: type[E], call: Callable[..., object], *args: Any, **options: Any) -> E:
        """The error that ``call`` raises, of that class and with a meaningful message.

        Raises:
            AssertionError: it returns, or raises something else.
        """
        name = getattr(call, "__name__", str(call))
        given = ", ".join([*map(_brief, args), *(f"{k}={_brief(v)}" for k, v in options.items())])
        try:
            result = call(*args, **options)
        except error as caught:
            if len(str(caught)) <= 20:
                raise AssertionError(f"{name}({given}): the message is only {caught!r}") from caught
            self.evidence.add("errors", f"{name}({given}): {type(caught).__name__}: {caught}")
            return caught
        except Exception as caught:  # whatever it is, it is the wrong one
            raise AssertionError(
                f"{name}({given}) raises {type(caught).__name__} instead of {error.__name__}: "
                f"{caught}"
            ) from caught
        raise AssertionError(f"{name}({given}) raises nothing, but returns {_brief(result)}")

    def works(self, call: Callable[..., T], *args: Any, **options: Any) -> T:
        """The result of ``call``.

        Raises:
            AssertionError: it raises, though the contract is that it works.
        """
        try:
            return call(*args, **options)
        except Exception as caught:
            name = getattr(call, "__name__", str(call))
            raise AssertionError(
                f"{name}({', '.join(map(_brief, args))}) raises {type(caught).__name__}: {caught}"
            ) from caught

    # -- memory -----------------------------------------------------------------------------------

    def check_grows(
        self,
        make: Callable[..., object],
        *fresh: Callable[[], object],
        device: Device,
        nbytes: int,
        where: str,
    ) -> None:
        """While the result of ``make`` is held, ``nbytes`` more are allocated on ``device``.

        Each of ``fresh`` makes an argument; every call gets new ones.
        """
        counter = self.counter(device)
        counter.check(lambda: counter.held_by(make, *fresh), nbytes, TOLERANCE_BYTES, where)

    def check_leaves_nothing(
        self, use: Callable[..., object], *fresh: Callable[[], object], device: Device, where: str
    ) -> None:
        """After ``use``, no more is allocated on ``device`` than before; ``fresh`` as above."""
        counter = self.counter(device)
        counter.check(lambda: counter.left_by(use, *fresh), 0, TOLERANCE_BYTES, where)

    def counter(self, device: Device) -> Counter:
        """Counts the bytes allocated on ``device``."""
        if device not in self._counters:
            self._counters[device] = Counter(self.probe, self.evidence, device)
        return self._counters[device]

    # -- outcomes ---------------------------------------------------------------------------------

    def not_applicable(self, why: str) -> NoReturn:
        """End the check as ``not-applicable``."""
        raise NotApplicableError(why)

    # -- abilities --------------------------------------------------------------------------------

    def has(self, ability: str) -> bool:
        """Whether the backend has ``ability``, such as ``probe.write``: it may be without."""
        return not isinstance(resolve(self.backend, ability), Unsupported)

    def require(self, ability: str) -> None:
        """Continue if the backend has ``ability``; else the check ends as ``unsupported``."""
        require_ability(self.backend, ability)


def _brief(value: object) -> str:
    if isinstance(value, (str, int, float, list, dict, tuple)) or value is None:
        text = shown(value)  # a tensor in it may not survive its own repr
        return text if len(text) < 60 else text[:57] + "…"
    return str(value) if type(value).__module__.startswith("unidev") else type(value).__name__
