"""``Layers`` and ``Functions``: the parts of the contract behind ``unidev.nn``.

Images are ``(batch, channels, height, width)`` on every framework. What arrives here is checked,
pairs are ``(height, width)``, and weights are NumPy's, in the portable layout: outputs first.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from unidev.contract.backend import Backend

    Array = np.ndarray[Any, Any]
    Tensor = Any
    Model = Any
    Pair = tuple[int, int]


class Layers(ABC):
    """Makes the framework's own layers, on the CPU, built, with the weights that are given.

    Each can be called with a tensor, and computes where its weights are.
    """

    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    @abstractmethod
    def dense(self, weight: Array, bias: Array | None) -> Model:
        """``x @ weight.T + bias``, of the last axis; ``weight`` is ``(outputs, inputs)``."""

    @abstractmethod
    def conv2d(self, weight: Array, bias: Array | None, stride: Pair, padding: Pair) -> Model:
        """Cross-correlation; ``weight`` is ``(out, in, height, width)``, padding is with zeros."""

    @abstractmethod
    def avg_pool2d(self, kernel_size: Pair, stride: Pair) -> Model:
        """Means of whole windows; what is left at the edge is dropped."""

    @abstractmethod
    def max_pool2d(self, kernel_size: Pair, stride: Pair) -> Model:
        """Maxima of whole windows; what is left at the edge is dropped."""

    @abstractmethod
    def flatten(self) -> Model:
        """``(batch, …)`` to ``(batch, rest)``, channels first."""

    @abstractmethod
    def relu(self) -> Model:
        """``max(x, 0)``."""

    @abstractmethod
    def tanh(self) -> Model:
        """``tanh(x)``."""

    @abstractmethod
    def batch_norm(self, features: int, momentum: float, epsilon: float) -> Model:
        """Of axis 1, of 2 or of 4 axes; weight 1, bias 0, running mean 0, running variance 1.

        While training, ``running = momentum * running + (1 - momentum) * of this batch``.
        """

    @abstractmethod
    def dropout(self, rate: float) -> Model:
        """While training, zeros for this share of the elements, and the others scaled up."""

    @abstractmethod
    def sequential(self, layers: Sequence[Model]) -> Model:
        """One layer after the other; the layers are those given, not copies."""

    @abstractmethod
    def set_mode(self, model: Model, is_training: bool) -> None:
        """Training, as a new layer is, or inference: for batch norm, dropout and the like.

        Raises:
            UnsupportedOperation: models of this kind have no mode; says what to do.
        """


class Functions(ABC):
    """The framework's own functions: differentiable, and computed where ``x`` is.

    The tensors of a call are known to be on one device.
    """

    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    @abstractmethod
    def linear(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """As ``Layers.dense``."""

    @abstractmethod
    def conv2d(
        self, x: Tensor, weight: Tensor, bias: Tensor | None, stride: Pair, padding: Pair
    ) -> Tensor:
        """As ``Layers.conv2d``."""

    @abstractmethod
    def avg_pool2d(self, x: Tensor, kernel_size: Pair, stride: Pair) -> Tensor:
        """As ``Layers.avg_pool2d``."""

    @abstractmethod
    def relu(self, x: Tensor) -> Tensor:
        """``max(x, 0)``."""

    @abstractmethod
    def tanh(self, x: Tensor) -> Tensor:
        """``tanh(x)``."""

    @abstractmethod
    def softmax_cross_entropy(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Mean over the batch, zero-d: ``logits`` is ``(batch, classes)``, ``labels`` int64."""

    @abstractmethod
    def mean_squared_error(self, predictions: Tensor, targets: Tensor) -> Tensor:
        """Mean over all elements, zero-d; both are of one shape."""
