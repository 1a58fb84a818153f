"""``Sample``: a model of the probe's, its state before, and its state now."""

from __future__ import annotations

from contextlib import suppress
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

import unidev
from unidev_conformance.kit.models.differentiating import plus, squares_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from unidev.contract.training_probe import ModelProbe
    from unidev.device import Device
    from unidev_conformance.kit.workbench import Workbench

    Array = np.ndarray[Any, Any]
    Tensor = Any

INPUT = (np.arange(24, dtype="float32") % 7 / 4 - 0.75).reshape(6, 4)
"""The models' input."""


class Sample:
    """A model on a device, with an optimizer made for it before any move."""

    def __init__(self, bench: Workbench) -> None:
        self.bench = bench
        self.probe: ModelProbe = bench.probe.models
        self.model = self.probe.model()
        self.optimizer = self.probe.optimizer(self.model)
        self.device = bench.cpu

    @classmethod
    def on(cls, bench: Workbench, device: Device) -> Sample:
        """A new sample, placed on ``device`` unless it is made there."""
        sample = cls(bench)
        if device is not sample.device:
            sample.place(device)
        return sample

    @classmethod
    def trained_on(cls, bench: Workbench, device: Device, *, steps: int = 1) -> Sample:
        """A sample that has made steps there, and so has gradients, statistics and momentum."""
        sample = cls.on(bench, device)
        for _ in range(steps):
            sample.step()
        return sample

    @classmethod
    def counting_on(cls, bench: Workbench, device: Device, *, is_other: bool = False) -> Sample:
        """A new sample on ``device`` whose optimizer counts its steps, and has groups."""
        sample = cls.on(bench, device)
        sample.optimizer = sample.probe.counting_optimizer(sample.model, is_other)
        return sample

    @property
    def x(self) -> Tensor:
        """The input, on the model's device."""
        return self.bench.make(INPUT, self.device)

    def paths(self) -> list[str]:
        """The paths of the model's tensors, but for its gradients."""
        paths = self.bench.backend.models.tensors(self.model)
        return [path for path in paths if not path.endswith(".grad")]

    def place(self, device: Device) -> None:
        """Move the model and the optimizer with it, using unidev."""
        flags = self.flags()
        placed = self.bench.works(unidev.place, self.model, device, optimizer=self.optimizer)
        what = "place(model, device, optimizer=...)"
        assert isinstance(placed, tuple), f"{what} returns {type(placed).__name__}, not a pair"
        assert placed[0] is self.model, f"{what} returns a different model"
        self.optimizer = placed[1]
        self.device = device
        self.check_flags(flags, f"{what}, to {device}")

    def place_alone(self, device: Device) -> Any:
        """Move the model without its optimizer; returns the result of ``place``."""
        placed = self.bench.works(unidev.place, self.model, device)
        self.device = device
        return placed

    def step(self) -> None:
        """One training step, on the model's device."""
        self.bench.works(self.probe.step, self.model, self.optimizer, self.x)

    def forward(self) -> bytes:
        """The output's bytes, in inference mode."""
        return self.bench.probe.read(self.probe.forward(self.model, self.x))

    def output(self) -> Array:
        """The output's numbers."""
        return np.frombuffer(self.forward(), dtype="float32")

    def loss_of(self, model: Any, x: Tensor) -> Tensor:
        """The sum of squares of the model's output."""
        return squares_of(model, x)

    # -- its tensors ------------------------------------------------------------------------------

    def tensors(self) -> Mapping[str, Tensor]:
        """Parameters, buffers and gradients, from the probe."""
        return self.probe.tensors(self.model)

    def state(self) -> dict[str, Tensor]:
        """The optimizer's tensors, from the probe."""
        return {
            f"optimizer {name}": x
            for name, x in self.probe.optimizer_tensors(self.optimizer).items()
        }

    def everything(self) -> dict[str, Tensor]:
        """The model's tensors and the optimizer's."""
        return {**self.tensors(), **self.state()}

    def contents(self) -> dict[str, bytes]:
        """The bytes of everything."""
        return {name: self.bench.probe.read(x) for name, x in self.everything().items()}

    def memory(self) -> dict[str, list[Any]]:
        """The extents of the model's own tensors."""
        return {name: self.bench.oracle.storage(x) for name, x in self.tensors().items()}

    def names(self, tensors: Mapping[str, Tensor]) -> set[str]:
        """The probe's names of ``tensors``, matched by memory.

        If a tensor has several names: the frozen one, else the first.
        """
        known = {tuple(extents): name for name, extents in reversed(self.memory().items())}
        frozen = self.probe.frozen(self.model)
        known |= {tuple(extents): n for n, extents in self.memory().items() if n in frozen}
        found = {name: tuple(self.bench.oracle.storage(x)) for name, x in tensors.items()}
        strange = [name for name, place in found.items() if place not in known]
        assert not strange, f"{strange} are not in the memory of any tensor of the model"
        return {known[place] for place in found.values()}

    def array(self, x: Tensor) -> Array:
        """The numbers of a float32 tensor."""
        found: Array = np.frombuffer(self.bench.probe.read(x), dtype="float32")
        return found

    def flags(self) -> tuple[list[str], bool | None, list[bool]]:
        """The frozen parameters, the mode, and which tensors autograd records of themselves."""
        autograd, said = self.bench.probe.autograd, list[bool]()
        if self.bench.has("probe.autograd.is_differentiable"):
            found = self.tensors().items()
            said = [autograd.is_differentiable(x) for n, x in found if not n.endswith(".grad")]
        return sorted(self.probe.frozen(self.model)), self.probe.is_training(self.model), said

    # -- comparisons ------------------------------------------------------------------------------

    def check_on(self, device: Device, where: str) -> None:
        """Everything in the model is on ``device``."""
        for name, x in self.tensors().items():
            self.bench.oracle.check_device(x, device, f"{where}: {name}")

    def check_contents(self, before: Mapping[str, bytes], where: str) -> None:
        """Everything has its previous bytes, and nothing was added or removed."""
        after = self.contents()
        assert sorted(after) == sorted(before), f"{where}: other names"
        changed = [name for name in before if before[name] != after[name]]
        assert not changed, f"{where}: the values of {changed} changed"

    def check_flags(self, before: object, where: str) -> None:
        """What is frozen, the mode, and what is recorded are as before."""
        after = self.flags()
        assert after == before, f"{where}: frozen, training, recorded are {after}, not {before}"

    def check_like(self, other: Sample, where: str) -> None:
        """The same numbers as another sample: identical bits if both are on one kind of device."""
        mine, others = self.everything(), other.everything()
        assert list(mine) == list(others), f"{where}: {list(mine)}, instead of {list(others)}"
        for name in mine:
            a, b = self.bench.probe.read(mine[name]), self.bench.probe.read(others[name])
            if self.device.kind == other.device.kind or a == b:
                assert a == b, f"{where}: {name} differs from that of a model that was not moved"
                continue
            close = np.allclose(
                np.frombuffer(a, "float32"), np.frombuffer(b, "float32"), rtol=1e-4, atol=1e-5
            )
            assert close, f"{where}: {name} is far from that of a model that was not moved"


def bind_anew(bench: Workbench, model: Any) -> None:
    """Let each statistic be a new tensor, of twice its values, where models may bind them anew."""
    models, types = bench.backend.models, bench.backend.tensor_types
    known = [x for x in models.statistics(model).values() if isinstance(x, types)]
    for namespace, own in product(models.namespaces(model), known):
        for name in [name for name, x in namespace.items() if x is own]:
            namespace[name] = plus(own, own)


def assign_anew(bench: Workbench, model: Any) -> dict[str, bytes]:
    """As ``bind_anew``, of each buffer, by the model's own attributes; returns their contents."""
    models, found = bench.backend.models, dict[str, bytes]()
    trained = [*map(id, unidev.parameters(model).values())]
    for path, x in models.tensors(model).items():
        name = path.rpartition(".")[2]
        for holder in (model, *bench.probe.models.objects(model)):
            if not (id(x) in trained or name == "grad") and getattr(holder, name, None) is x:
                with suppress(TypeError):  # a parameter, which no tensor may replace
                    setattr(holder, name, y := plus(x, x))
                    found[path] = bench.probe.read(y)
    return found
