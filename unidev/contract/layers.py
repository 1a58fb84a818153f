"""``Layers`` and ``Functions``: the parts of the contract behind ``unidev.nn``.

Images are ``(batch, channels, height, width)`` on every framework. Arguments have been checked,
pairs are ``(height, width)``, and weights are NumPy arrays in the portable layout: outputs first.
Arguments are positional, so a framework's own class or function may stand for a method:
``relu = my_framework.ReLU`` in ``Layers``, ``relu = staticmethod(my.relu)`` in ``Functions``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple

from unidev.contract.optional import BackendPart
from unidev.errors import UnsupportedOperation
from unidev.system.wording import kind_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractContextManager

    import numpy as np

    Array = np.ndarray[Any, Any]
    Tensor = Any
    Model = Any
    Pair = tuple[int, int]
    CombineMoments = Callable[[Tensor, Tensor, int], "Moments"]
    """This worker's ``(mean, deviations, count)`` to all workers': see ``Layers.synchronized``."""


class Moments(NamedTuple):
    """Statistics of one batch over all workers, the same bits on each, one number a channel."""

    mean: Tensor
    variance: Tensor
    """The sum of squared deviations, divided by ``count``."""
    count: Tensor
    """How many values of a channel there are, of shape ``(1,)`` and the dtype of ``mean``."""
    gradients: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
    """Those by this worker's own mean and deviations, from those by ``mean`` and ``variance``."""


class Layers(BackendPart, ABC):
    """Makes the framework's own layers, built, on the CPU, with the given weights.

    Each can be called with a tensor, and computes on the device of its weights.
    """

    @abstractmethod
    def dense(self, weight: Array, bias: Array | None, /) -> Model:
        """``x @ weight.T + bias`` over the last axis; ``weight`` is ``(outputs, inputs)``."""

    @abstractmethod
    def conv2d(self, weight: Array, bias: Array | None, stride: Pair, padding: Pair, /) -> Model:
        """Cross-correlation with zero padding; ``weight`` is ``(out, in, height, width)``."""

    @abstractmethod
    def avg_pool2d(self, kernel_size: Pair, stride: Pair, /) -> Model:
        """Means of complete windows; incomplete ones at the edge are dropped."""

    @abstractmethod
    def max_pool2d(self, kernel_size: Pair, stride: Pair, /) -> Model:
        """Maxima of complete windows; incomplete ones at the edge are dropped."""

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
    def batch_norm(self, features: int, momentum: float, epsilon: float, /) -> Model:
        """Normalises axis 1 of a tensor with 2 or 4 axes.

        Starts with weight 1, bias 0, running mean 0 and running variance 1. In training mode,
        ``running = momentum * running + (1 - momentum) * statistic_of_the_batch``.
        """

    @abstractmethod
    def dropout(self, rate: float, /) -> Model:
        """In training mode, zeros this fraction of the elements and scales up the others."""

    @abstractmethod
    def sequential(self, layers: Sequence[Model], /) -> Model:
        """One layer after the other; holds the given layers, not copies."""

    def residual(self, layers: Sequence[Model], shortcut: Model | None = None) -> Model:  # noqa: ARG002
        """``shortcut(x) + sequential(layers)(x)``, with ``x`` itself where there is no shortcut.

        In checkpoints a shortcut comes after the last of the layers.
        """
        raise UnsupportedOperation("residual", "the backend has no such layer")

    @abstractmethod
    def set_mode(self, model: Model, is_training: bool) -> None:
        """Set training mode, which a new layer has, or inference mode: for batch norm, dropout etc.

        Raises:
            UnsupportedOperation: models of this kind have no mode; states what to do instead.
        """

    def modes(self, model: Model) -> Iterable[tuple[Model, bool]]:  # noqa: ARG002
        """Each layer in ``model`` that has a mode, outer ones first; True in training mode.

        The default, none, is for models that infer unless a call says otherwise.
        """
        return ()

    def sequence(self, model: Model) -> Sequence[Model]:
        """The layers of ``model``, if it calls one after the other, each with the last's result.

        Raises:
            UnsupportedOperation: it is not known to do that.
        """
        raise UnsupportedOperation(
            f"finding the order of the layers of a {kind_of(model)}",
            "it is not a sequential net: place its layers yourself, and move between them with "
            "as_in_device",
        )

    def synchronized(
        self,
        model: Model,
        combine: CombineMoments,  # noqa: ARG002
    ) -> AbstractContextManager[None]:
        """A block in which layers of batch normalisation that train use the batch of all workers.

        Such a layer calls ``combine(mean, deviations, count)`` in each forward, with the mean of
        its own values in each channel, the sum of their squared deviations from it, both of float32
        or wider, and how many values that are. It normalises by the result, which its running
        statistics see. ``combine`` waits for the other workers, and autograd does not see into it:
        backward calls ``gradients`` of the result once, which waits, too, in the same order on
        every worker, and before the block ends.

        Raises:
            UnsupportedOperation: ``model`` has no such layer, or one that cannot do this.
        """
        raise UnsupportedOperation(
            f"synchronizing the batch normalisation of a {kind_of(model)}",
            "the backend has no such layers",
        )

    def before(
        self,
        layer: Model,
        function: Callable[[Model, Tensor], Tensor],  # noqa: ARG002
    ) -> None:
        """From now on give ``layer`` ``function(layer, x)`` for its input, a tensor or a container.

        A copy of the layer gets ``function(copy, x)``, or ``x``. If the framework does not compute
        where the operands are, the layer computes there.
        """
        raise UnsupportedOperation(
            f"moving the inputs of a {kind_of(layer)}", "the backend has no hook before a layer"
        )


class Functions(BackendPart, ABC):
    """The framework's own functions: differentiable, and computed on the device of ``x``.

    The caller has checked that all tensors are on one device.
    """

    @abstractmethod
    def linear(self, x: Tensor, weight: Tensor, bias: Tensor | None, /) -> Tensor:
        """As ``Layers.dense``."""

    @abstractmethod
    def conv2d(
        self, x: Tensor, weight: Tensor, bias: Tensor | None, stride: Pair, padding: Pair, /
    ) -> Tensor:
        """As ``Layers.conv2d``."""

    @abstractmethod
    def avg_pool2d(self, x: Tensor, kernel_size: Pair, stride: Pair, /) -> Tensor:
        """As ``Layers.avg_pool2d``."""

    @abstractmethod
    def max_pool2d(self, x: Tensor, kernel_size: Pair, stride: Pair, /) -> Tensor:
        """As ``Layers.max_pool2d``."""

    @abstractmethod
    def flatten(self, x: Tensor) -> Tensor:
        """As ``Layers.flatten``."""

    @abstractmethod
    def relu(self, x: Tensor, /) -> Tensor:
        """``max(x, 0)``."""

    @abstractmethod
    def tanh(self, x: Tensor, /) -> Tensor:
        """``tanh(x)``."""

    @abstractmethod
    def softmax_cross_entropy(self, logits: Tensor, labels: Tensor, /) -> Tensor:
        """Mean over the batch, zero-d: ``logits`` is ``(batch, classes)``.

        ``labels`` has any of the integer dtypes among ``Backend.dtypes``, however many bits.
        """

    @abstractmethod
    def mean_squared_error(self, predictions: Tensor, targets: Tensor, /) -> Tensor:
        """Mean over all elements, zero-d; both have the same shape."""
