"""``AutogradProbe`` and ``ModelProbe``: what the conformance profile ``train`` needs of a backend.

As with ``Probe``: by the framework's *own* calls, never through what is judged.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from unidev.contract.backend import unsupported

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np

    from unidev.contract.backend import Backend
    from unidev.contract.device import Device

    Array = np.ndarray[Any, Any]
    Tensor = Any
    Model = Any
    Optimizer = Any


class AutogradProbe(ABC):
    """Gradients, by the framework's own calls."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    @abstractmethod
    def gradients(
        self, function: Callable[..., Tensor], arrays: Sequence[Array], devices: Sequence[Device]
    ) -> Sequence[Tensor | None]:
        """Of the sum of ``function(*xs)`` by each ``x``, made of an array on a device.

        The framework's own tensors, where the framework leaves them; None: no way there.
        """

    @abstractmethod
    def detach(self, x: Tensor) -> Tensor:
        """``x`` cut off from autograd."""

    second_order: Callable[[Callable[[Tensor], Tensor], Array, Device], Tensor] = unsupported(
        "the framework has no gradients of gradients"
    )
    """``second_order(function, array, device)``: d/dx of the sum of (d/dx of the sum of
    ``function(x)``), a native tensor."""

    is_differentiable: Callable[[Tensor], bool] = unsupported(
        "the framework's tensors have no flag that says whether they are differentiable"
    )
    """What the flag of a tensor says (``requires_grad``), asked while ``function`` runs."""


class ModelProbe(ABC):
    """Sample models and optimizers, by the framework's own calls."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    @abstractmethod
    def model(self) -> Model:
        """A new model on the CPU, built, in training mode, with the same numbers each time.

        It takes float32 ``(n, 4)`` and gives ``(n, 4)``. It has a dense layer whose weight is
        another one's, too (tied); a submodule that stands at two places; a parameter that is
        frozen; statistics that training updates (batch norm); a buffer that is saved with it and
        one that is not, where the framework has such.
        """

    @abstractmethod
    def tensors(self, model: Model) -> Mapping[str, Tensor]:
        """Parameters and buffers under each of their names, gradients as ``NAME.grad``."""

    @abstractmethod
    def objects(self, model: Model) -> Sequence[object]:
        """The parameter objects that optimizers hold, and the submodules: what stays the same."""

    @abstractmethod
    def tied(self, model: Model) -> Sequence[tuple[Tensor, Tensor]]:
        """Pairs that are one: the tied weight as each of its layers has it."""

    @abstractmethod
    def shared(self, model: Model) -> Sequence[tuple[object, object]]:
        """Pairs of places at which one submodule stands, as the model has them now."""

    @abstractmethod
    def frozen(self, model: Model) -> frozenset[str]:
        """Names of the parameters that are frozen."""

    @abstractmethod
    def is_training(self, model: Model) -> bool | None:
        """The mode that the model is in; None where models have none."""

    @abstractmethod
    def set_inference(self, model: Model) -> None:
        """Leave training mode, where models have one."""

    @abstractmethod
    def forward(self, model: Model, x: Tensor) -> Tensor:
        """As inference, whatever the mode; computed where the model is, recorded by no autograd."""

    @abstractmethod
    def optimizer(self, model: Model) -> Optimizer:
        """SGD with momentum, or one that has state as well, for the model's parameters."""

    @abstractmethod
    def step(self, model: Model, optimizer: Optimizer, x: Tensor) -> None:
        """One step of training on the sum of squares of the output; leaves gradients, if it can."""

    @abstractmethod
    def optimizer_tensors(self, optimizer: Optimizer) -> Mapping[str, Tensor]:
        """Its state after a step, but for counters that the framework keeps on the CPU."""

    def earlier_optimizer(self, model: Model) -> Optimizer:
        """One that goes on training ``model`` when that is placed without it, before any step.

        Override with ``unsupported(...)`` where an optimizer has to be given to ``place``.
        """
        return self.optimizer(model)

    add_hook: Callable[[Model, Callable[[], None]], None] = unsupported(
        "the framework's models have no hooks"
    )
    """``add_hook(model, call)``: each forward calls ``call()``."""

    unbuilt: Callable[[], Model] = unsupported(
        "the framework's models have their parameters from the beginning"
    )
    """A model of the shapes above whose parameters come into being at the first ``forward``."""

    spread: Callable[[], Model] = unsupported(
        "the framework's models are not spread over several devices by themselves"
    )
    """A model each of whose parameters is mirrored on several devices; needs two GPUs."""
