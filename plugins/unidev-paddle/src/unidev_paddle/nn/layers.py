"""Paddle's own layers, made on the CPU whatever Paddle's default device is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from unidev.contract import Layers
from unidev_paddle.framework import paddle
from unidev_paddle.nn.synchronized import synchronized

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractContextManager

    Layer = Any

    from unidev.contract import Array, CombineMoments, Pair, Tensor


class Unfilled(paddle.nn.initializer.Initializer):  # type: ignore[misc]  # Paddle is untyped here
    """Gives a parameter no memory: Paddle's own initializers allocate on the default device."""

    def forward(self, var: Tensor, block: Any = None) -> Tensor:  # noqa: ARG002
        """Leave ``var`` unchanged."""
        return var


class BatchNorm(paddle.nn.BatchNorm2D):  # type: ignore[misc]  # Paddle is untyped here
    """``BatchNorm2D`` that also takes 2 axes, and does not warn at each call while training."""

    def create_parameter(self, shape: Any, *arguments: Any, **options: Any) -> Tensor:  # noqa: ARG002
        """Without memory, by ``Unfilled``; the statistics too."""
        return super().create_parameter(shape, _unfilled(), "float32")

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002  Paddle's own name for it
        """Normalises axis 1."""
        return paddle.nn.functional.batch_norm(
            input,
            self._mean,
            self._variance,
            weight=self.weight,
            bias=self.bias,
            training=self.training,
            momentum=self._momentum,
            epsilon=self._epsilon,
        )


class Residual(paddle.nn.Sequential):  # type: ignore[misc]
    """Adds its input to the result, or what a shortcut, its last layer, makes of it."""

    def __init__(self, *layers: Layer, has_shortcut: bool) -> None:
        super().__init__(*layers)
        self.has_shortcut = has_shortcut

    def forward(self, x: Tensor) -> Tensor:
        """``shortcut(x) + layers(x)``."""
        if not self.has_shortcut:
            return x + super().forward(x)
        *layers, shortcut = self
        y = x
        for layer in layers:
            y = layer(y)
        return shortcut(x) + y


class PaddleLayers(Layers):
    """``paddle.nn``."""

    avg_pool2d = paddle.nn.AvgPool2D
    max_pool2d = paddle.nn.MaxPool2D
    flatten = paddle.nn.Flatten
    relu = paddle.nn.ReLU
    tanh = paddle.nn.Tanh
    dropout = paddle.nn.Dropout

    def dense(self, weight: Array, bias: Array | None) -> Layer:
        """Paddle's weight is ``(inputs, outputs)``."""
        outputs, inputs = weight.shape
        made = paddle.nn.Linear(
            inputs, outputs, weight_attr=_unfilled(), bias_attr=_unfilled(bias is not None)
        )
        return _filled(made, weight=weight.T, bias=bias)

    def conv2d(self, weight: Array, bias: Array | None, stride: Pair, padding: Pair) -> Layer:
        """Channels first is Paddle's default layout."""
        outputs, inputs, *size = weight.shape
        made = paddle.nn.Conv2D(
            inputs,
            outputs,
            size,
            list(stride),
            list(padding),
            weight_attr=_unfilled(),
            bias_attr=_unfilled(bias is not None),
        )
        return _filled(made, weight=weight, bias=bias)

    def batch_norm(self, features: int, momentum: float, epsilon: float) -> Layer:
        """Paddle's momentum is the weight of the old value, as here."""
        ones, zeros = np.ones(features, np.float32), np.zeros(features, np.float32)
        made = BatchNorm(features, momentum, epsilon)
        return _filled(made, weight=ones, bias=zeros, _mean=zeros, _variance=ones)

    def sequential(self, layers: Sequence[Layer]) -> Layer:
        """``Sequential``."""
        return paddle.nn.Sequential(*layers)

    def residual(self, layers: Sequence[Layer], shortcut: Layer | None = None) -> Layer:
        """A ``Sequential`` that adds its input."""
        if shortcut is None:
            return Residual(*layers, has_shortcut=False)
        return Residual(*layers, shortcut, has_shortcut=True)

    def set_mode(self, model: Layer, is_training: bool) -> None:
        """Sets the mode of every ``Layer``."""
        if is_training:
            model.train()
        else:
            model.eval()

    def synchronized(self, model: Layer, combine: CombineMoments) -> AbstractContextManager[None]:
        """Paddle's layers for 1 to 3 dimensions, and unidev's."""
        return synchronized(model, combine, BatchNorm)

    def modes(self, model: Layer) -> Iterable[tuple[Layer, bool]]:
        """The mode of every ``Layer``."""
        return [(layer, layer.training) for layer in model.sublayers(include_self=True)]

    def sequence(self, model: Layer) -> Sequence[Layer]:
        """The layers of ``nn.Sequential``, unless a subclass has a ``forward`` of its own."""
        sequential = paddle.nn.Sequential
        if isinstance(model, sequential) and type(model).forward is sequential.forward:
            return list(model)
        return super().sequence(model)

    def before(self, layer: Layer, function: Callable[[Layer, Tensor], Tensor]) -> None:
        """A forward pre-hook."""
        layer.register_forward_pre_hook(
            lambda layer, inputs: tuple(function(layer, x) for x in inputs)
        )


def _unfilled(is_there: bool = True) -> Any:
    return paddle.ParamAttr(initializer=Unfilled()) if is_there else False


def _filled(layer: Layer, **values: Array | None) -> Layer:
    for name, array in values.items():
        if array is not None:
            dense = getattr(layer, name).value().get_tensor()
            dense.set(np.ascontiguousarray(array), paddle.CPUPlace())
    return layer
