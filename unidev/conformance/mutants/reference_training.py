"""The reference with training: NumPy has no autograd, so here is one for the mutants to break.

``Models`` and ``Autograd`` for the net of ``reference_net``; ``reference_probes`` has the probes.
``reference_layers`` layers
and functions; ``train`` gives them all to a backend.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from unidev.conformance.mutants.reference_net import Cell, Momentum, Net, Parameter, overwrite
from unidev.conformance.mutants.taped import (
    Taped,
    backward,
    detached,
    is_differentiable,
    is_recording,
    paused,
)
from unidev.contract.autograd import Autograd
from unidev.contract.models import Stored
from unidev.errors import UnsupportedOperation
from unidev.numpy_backend.models import NumpyModels, Slot

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from unidev.contract.device import Device

    Array = np.ndarray[Any, Any]


class ReferenceAutograd(Autograd):
    """By ``Taped``."""

    def leaf(self, x: Array) -> Array:
        """Another array on the same memory."""
        return x if is_differentiable(x) else Taped.make(x, self.backend.device_of(x))

    def gradients(
        self, loss_of: Callable[[], Any], leaves: Sequence[Array]
    ) -> tuple[Array, Sequence[Array | None]]:
        """What was recorded is gone when the loss is."""
        loss = loss_of()
        with paused():
            slopes = backward(loss, loss * 0 + 1, leaves)
        return self.backend.copy_to(detached(loss), self.backend.device_of(loss), False), slopes

    def no_grad(self) -> AbstractContextManager[Any]:
        """Of this thread."""
        return paused()

    def descend(
        self, parameters: Sequence[Array], gradients: Sequence[Array], lr: float
    ) -> Sequence[Array]:
        """In place."""
        with paused():
            for x, slope in zip(parameters, gradients, strict=True):
                overwrite(x, x - slope * np.float32(lr))
        return parameters


class ReferenceModels(NumpyModels):
    """Nets; and whatever is a model to NumPy."""

    def parameters(self, model: Any) -> Mapping[str, Array]:
        """Each once."""
        if not isinstance(model, Net):
            return super().parameters(model)
        return {name: cell.data for name, cell in _unique(model) if isinstance(cell, Parameter)}

    def trainable(self, model: Any) -> Mapping[str, Array]:
        """Those that are not frozen."""
        if not isinstance(model, Net):
            return super().trainable(model)
        return {
            name: cell.data
            for name, cell in _unique(model)
            if isinstance(cell, Parameter) and not cell.is_frozen
        }

    def tensors(self, model: Any) -> Mapping[str, Array]:
        """Each once, and its gradient."""
        if not isinstance(model, Net):
            return super().tensors(model)
        found = {}
        for name, cell in _unique(model):
            found[name] = cell.data
            if cell.grad is not None:
                found[f"{name}.grad"] = cell.grad
        return found

    def parts(self, model: Any, optimizer: Any) -> Sequence[Any]:
        """Cells of the net and of the optimizer."""
        if not isinstance(model, Net):
            return super().parts(model, optimizer)
        if model.is_spread:
            raise UnsupportedOperation("placing this net", "it is mirrored on several devices")
        _check_built(model)
        return [*model.cells(), *(optimizer.velocities.values() if optimizer else ())]

    def is_placed(self, model: Any, device: Device) -> bool:
        """False of what cannot be placed."""
        if isinstance(model, Net) and (model.is_spread or not model.is_built):
            return False
        return super().is_placed(model, device)

    def is_on(self, part: Any, device: Device) -> bool:
        """With its gradient."""
        if not isinstance(part, Cell):
            return super().is_on(part, device)
        return all(self.backend.device_of(x) is device for x in _arrays(part))

    def twin(self, part: Any, device: Device) -> Any:
        """A cell that nobody has yet."""
        if not isinstance(part, Cell):
            return Slot(self._moved(part.array, device))
        data = self._moved(part.data, device)
        grad = None if part.grad is None else self.backend.copy_to(part.grad, device, False)
        return Cell(data, grad)

    def _moved(self, x: Array, device: Device) -> Array:
        copied = self.backend.copy_to(detached(x), device, False)
        return Taped.make(copied, device) if is_differentiable(x) else copied

    def swap(self, part: Any, twin: Any) -> None:
        """Exchange arrays and gradients."""
        if not isinstance(part, Cell):
            super().swap(part, twin)
            return
        part.data, twin.data = twin.data, part.data
        part.grad, twin.grad = twin.grad, part.grad

    def stored(self, model: Any) -> Mapping[str, Stored]:
        """Parameters, and the statistics that are saved."""
        if not isinstance(model, Net):
            return super().stored(model)
        _check_built(model)
        cells = [(n, c) for n, c in model.named() if getattr(c, "is_saved", True)]
        return {name: Stored(cell.data) for name, cell in cells}

    def write(self, x: Array, values: Array) -> None:
        """Into its memory."""
        overwrite(x, values)


def _unique(model: Net) -> list[tuple[str, Cell]]:
    """Each cell under its first name."""
    _check_built(model)
    first: dict[int, tuple[str, Cell]] = {}
    for name, cell in model.named():
        first.setdefault(id(cell), (name, cell))
    return list(first.values())


def _arrays(cell: Cell) -> list[Array]:
    return [cell.data] if cell.grad is None else [cell.data, cell.grad]


def _check_built(model: Net) -> None:
    if not model.is_built:
        raise UnsupportedOperation("placing this net", "it is not built yet: call it once")


def train(backend: Any) -> None:
    """Give ``backend``, a subclass of the reference backend, all of the above."""
    from unidev.conformance.mutants.reference_layers import (
        ReferenceFunctions,
        ReferenceLayers,
        record_layers,
    )
    from unidev.conformance.mutants.reference_probes import (
        ReferenceAutogradProbe,
        ReferenceModelProbe,
    )
    from unidev.numpy_backend.nn.layers import Layer
    from unidev.numpy_backend.probe import NumpyProbe

    plain_device_of, plain_copy = backend.device_of, backend.copy_to

    def device_of(self: Any, x: Any) -> Any:
        if isinstance(x, Taped):
            return self.device(x.simulated_device.kind, x.simulated_device.index)
        return plain_device_of(self, x)

    def copy_to(self: Any, x: Any, device: Any, non_blocking: bool) -> Any:
        if not isinstance(x, Taped):
            return plain_copy(self, x, device, non_blocking)
        made = self._on(x.view(np.ndarray).copy(), device)
        if not is_differentiable(x) or not is_recording():
            return made
        source = device_of(self, x)
        return Taped.make(made, device, [(x, lambda slope: self.copy_to(slope, source, False))])

    backend.device_of, backend.copy_to = device_of, copy_to
    backend.model_types = (Layer, Net, Momentum)
    backend.autograd = _part(ReferenceAutograd)
    backend.models = _part(ReferenceModels)
    backend.layers = _part(ReferenceLayers)
    backend.functions = _part(ReferenceFunctions)
    record_layers()
    probe: Any = NumpyProbe
    probe.autograd = property(lambda self: ReferenceAutogradProbe(self.backend))
    probe.models = property(lambda self: ReferenceModelProbe(self.backend))


def _part(cls: Any) -> Any:
    made = cached_property(cls)
    made.__set_name__(cls, f"_{cls.__name__}")  # it is put into a class that is there already
    return made
