"""The probes of the reference with training; see ``reference_training``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unidev.conformance.mutants.reference_net import Momentum, Net
from unidev.conformance.mutants.taped import (
    Taped,
    backward,
    detached,
    is_differentiable,
    paused,
)
from unidev.contract.training_probe import AutogradProbe, ModelProbe

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np

    from unidev.contract.device import Device

    Array = np.ndarray[Any, Any]


class ReferenceAutogradProbe(AutogradProbe):
    """By ``Taped``, too: there is nothing else."""

    def gradients(
        self, function: Callable[..., Any], arrays: Sequence[Array], devices: Sequence[Device]
    ) -> Sequence[Any]:
        """Of arrays that are made for it."""
        xs = [Taped.make(a.copy(), d) for a, d in zip(arrays, devices, strict=True)]
        result = function(*xs)
        with paused():
            return backward(result, result * 0 + 1, xs)

    def detach(self, x: Array) -> Array:
        """The same memory, without a history."""
        return detached(x)

    def second_order(self, function: Callable[[Any], Any], array: Array, device: Device) -> Array:
        """Recorded while the first one is computed."""
        x = Taped.make(array.copy(), device)
        result = function(x)
        (slope,) = backward(result, result * 0 + 1, [x])
        with paused():
            (again,) = backward(slope, slope * 0 + 1, [x])
        found: Array = again
        return found

    def is_differentiable(self, x: object) -> bool:
        """Whether it has a history."""
        return is_differentiable(x)


class ReferenceModelProbe(ModelProbe):
    """Of ``Net`` and ``Momentum``."""

    def model(self) -> Net:
        """A net on the CPU."""
        return Net(self.backend.cpu)

    def tensors(self, model: Net) -> Mapping[str, Array]:
        """Each cell's array and gradient."""
        found = {name: cell.data for name, cell in model.named()}
        named = model.named()
        return found | {f"{name}.grad": c.grad for name, c in named if c.grad is not None}

    def objects(self, model: Net) -> Sequence[object]:
        """Cells and layers."""
        return [*model.cells(), model.first, model.middle, model.again, model.second]

    def tied(self, model: Net) -> Sequence[tuple[Array, Array]]:
        """The weight of the first layer and the last."""
        return [(model.first.weight.data, model.second.weight.data)]

    def shared(self, model: Net) -> Sequence[tuple[object, object]]:
        """The layer in the middle."""
        return [(model.middle, model.again)]

    def frozen(self, model: Net) -> frozenset[str]:
        """The scale."""
        return frozenset(n for n, cell in model.named() if getattr(cell, "is_frozen", False))

    def is_training(self, model: Net) -> bool | None:
        """As the net has it."""
        return model.is_training

    def set_inference(self, model: Net) -> None:
        """A flag."""
        model.is_training = False

    def forward(self, model: Net, x: Array) -> Array:
        """``infer``."""
        return model.infer(x)

    def optimizer(self, model: Net) -> Momentum:
        """SGD with momentum."""
        return Momentum(model)

    def step(self, model: Net, optimizer: Momentum, x: Array) -> None:
        """Gradients stay in the cells."""
        model.compute_gradients(x)
        optimizer.step()

    def optimizer_tensors(self, optimizer: Momentum) -> Mapping[str, Array]:
        """Velocities."""
        return {str(position): cell.data for position, cell in optimizer.velocities.items()}

    def add_hook(self, model: Net, call: Callable[[], None]) -> None:
        """One more in the list."""
        model.hooks.append(call)

    def unbuilt(self) -> Net:
        """Built when it is called."""
        return Net(self.backend.cpu, is_built=False)

    def spread(self) -> Net:
        """Mirrored, it says."""
        return Net(self.backend.cpu, is_spread=True)
