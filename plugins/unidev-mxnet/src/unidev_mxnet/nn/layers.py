"""The layers behind ``unidev.nn``: Gluon's own, always with NumPy semantics."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import mxnet as mx  # type: ignore[import-untyped]
from mxnet import autograd
from mxnet.gluon import Block, HybridBlock, nn  # type: ignore[import-untyped]

from unidev.contract import Layers
from unidev.errors import UnsupportedOperation
from unidev_mxnet.models.tree import blocks_of
from unidev_mxnet.nn.synchronized import synchronized
from unidev_mxnet.scopes import numpy_semantics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractContextManager

    from unidev.contract import Array, CombineMoments, Model, Pair, Tensor

_PORTABLE = {"gamma": "weight", "beta": "bias"}
"""Gluon's names in batch norm, and their names in a checkpoint."""


class Layer(Block):  # type: ignore[misc]  # MXNet is untyped
    """A Gluon block with a mode of its own: the base of the layers of ``unidev.nn``.

    The mode is stored in the layer, by ``set_mode``, and does not depend on autograd's scope.
    MXNet's backward uses one mode for all layers, so with some layers training and others not,
    gradients would be wrong. So a layer computes by its own mode, whatever the scope.
    """

    _trains = True

    def __init__(self, *arguments: Any, **options: Any) -> None:
        with numpy_semantics():  # Gluon chooses some operators here
            super().__init__(*arguments, **options)

    def __call__(self, *inputs: Tensor) -> Tensor:
        """Forward, for ``mx.np.ndarray``, regardless of this thread's flags."""
        if mx.util.is_np_array():
            return super().__call__(*inputs)
        with numpy_semantics():
            return super().__call__(*inputs)

    def set_mode(self, is_training: bool) -> None:
        """Choose whether to compute in training mode."""
        self._trains = is_training


class Dense(Layer, nn.Dense):  # type: ignore[misc]
    """``gluon.nn.Dense``."""


class Conv2D(Layer, nn.Conv2D):  # type: ignore[misc]
    """``gluon.nn.Conv2D``."""


class AvgPool2D(Layer, nn.AvgPool2D):  # type: ignore[misc]
    """``gluon.nn.AvgPool2D``."""


class MaxPool2D(Layer, nn.MaxPool2D):  # type: ignore[misc]
    """``gluon.nn.MaxPool2D``."""


class Flatten(Layer, nn.Flatten):  # type: ignore[misc]
    """``gluon.nn.Flatten``."""


class Activation(Layer, nn.Activation):  # type: ignore[misc]
    """``gluon.nn.Activation``."""


class BatchNorm(Layer, nn.BatchNorm):  # type: ignore[misc]
    """``gluon.nn.BatchNorm`` that updates its statistics in the forward pass.

    MXNet's own, and this one too once ``hybridize`` compiles it, updates them when the gradient
    is computed, and not without.
    """

    def __call__(self, *inputs: Tensor) -> Tensor:
        """In training mode uses this batch's statistics, even if nothing is recorded."""
        if not self._trains:
            return super().__call__(*inputs)
        with autograd.train_mode():
            return super().__call__(*inputs)

    def set_mode(self, is_training: bool) -> None:
        """Also selects which statistics are used."""
        super().set_mode(is_training)
        self._kwargs["use_global_stats"] = not is_training

    def hybrid_forward(self, F: Any, x: Tensor, **arrays: Tensor) -> Tensor:  # noqa: N803
        """With momentum 1 the operator itself leaves the running statistics unchanged."""
        if not self._trains or F is not mx.nd:
            return super().hybrid_forward(F, x, **arrays)
        options = {**self._kwargs, "momentum": 1.0, "output_mean_var": True}
        in_order = (arrays[name] for name in ("gamma", "beta", "running_mean", "running_var"))
        y, mean, scale = mx.npx.batch_norm(x, *in_order, **options)
        with autograd.pause(train_mode=True):
            self._count(arrays["running_mean"], mean)
            self._count(arrays["running_var"], scale**-2.0 - self._kwargs["eps"])
        return y

    def _count(self, running: Tensor, value: Tensor) -> None:
        """``momentum * running + (1 - momentum) * value``, as an SGD step: one operator."""
        old = running.as_nd_ndarray()
        rate = 1.0 - self._kwargs["momentum"]
        mx.nd.sgd_update(old, value.as_nd_ndarray(), lr=rate, wd=1.0, rescale_grad=-1.0, out=old)


class Dropout(Layer, nn.Dropout):  # type: ignore[misc]
    """``gluon.nn.Dropout``."""

    def hybrid_forward(self, F: Any, x: Tensor) -> Tensor:  # noqa: N803  Gluon's own
        """Drops whenever it trains: mode ``always`` ignores autograd's scope."""
        if not self._trains or not self._rate:
            return x
        return F.npx.dropout(x, p=self._rate, axes=self._axes, mode="always")


class Sequential(Layer, nn.Sequential):  # type: ignore[misc]
    """``gluon.nn.Sequential``, for when some layer is not a ``HybridBlock``."""


class HybridSequential(Layer, nn.HybridSequential):  # type: ignore[misc]
    """``gluon.nn.HybridSequential``."""

    def __call__(self, *inputs: Tensor) -> Tensor:
        """Once ``hybridize`` compiles them, the layers are not called: enter their scope here."""
        if not self._active or not self._trains:
            return super().__call__(*inputs)
        with autograd.train_mode():
            return super().__call__(*inputs)


class Residual(HybridSequential):
    """Adds its input to the result, or what a shortcut, its last layer, makes of it."""

    def __init__(self, *, has_shortcut: bool) -> None:
        super().__init__()
        self._has_shortcut = has_shortcut

    def hybrid_forward(self, F: Any, x: Tensor) -> Tensor:  # noqa: N803
        """``shortcut(x) + layers(x)``."""
        if not self._has_shortcut:
            return x + super().hybrid_forward(F, x)
        *layers, shortcut = self._children.values()
        y = x
        for layer in layers:
            y = layer(y)
        return shortcut(x) + y


class MxnetLayers(Layers):
    """Gluon's layers, initialized, with ``mx.np.ndarray`` parameters."""

    avg_pool2d = AvgPool2D
    max_pool2d = MaxPool2D
    flatten = Flatten
    relu = staticmethod(partial(Activation, "relu"))
    tanh = staticmethod(partial(Activation, "tanh"))
    dropout = Dropout

    def dense(self, weight: Array, bias: Array | None) -> Model:
        """On the last axis: ``flatten=False``."""
        outputs, inputs = weight.shape
        layer = Dense(outputs, use_bias=bias is not None, flatten=False, in_units=inputs)
        return _filled(layer, weight=weight, bias=bias)

    def conv2d(self, weight: Array, bias: Array | None, stride: Pair, padding: Pair) -> Model:
        """``gluon.nn.Conv2D``, whose layout is the portable one."""
        outputs, inputs, *kernel = weight.shape
        layer = Conv2D(
            outputs, tuple(kernel), strides=stride, padding=padding,
            use_bias=bias is not None, in_channels=inputs,
        )  # fmt: skip
        return _filled(layer, weight=weight, bias=bias)

    def batch_norm(self, features: int, momentum: float, epsilon: float) -> Model:
        """The running variance is the biased one (divided by n)."""
        return _filled(BatchNorm(momentum=momentum, epsilon=epsilon, in_channels=features))

    def sequential(self, layers: Sequence[Model]) -> Model:
        """``HybridSequential``, which ``hybridize`` compiles, if all layers are hybrid."""
        is_hybrid = all(isinstance(layer, HybridBlock) for layer in layers)
        made = HybridSequential() if is_hybrid else Sequential()
        made.add(*layers)
        return made

    def residual(self, layers: Sequence[Model], shortcut: Model | None = None) -> Model:
        """A ``HybridSequential`` that adds its input."""
        made = Residual(has_shortcut=shortcut is not None)
        made.add(*layers, *([] if shortcut is None else [shortcut]))
        return made

    def set_mode(self, model: Model, is_training: bool) -> None:
        """For layers of ``unidev.nn``; compiled ones are recompiled."""
        blocks = [block for _, block in blocks_of(model)] if isinstance(model, Block) else [model]
        for block in blocks:
            if not isinstance(block, Layer):
                raise UnsupportedOperation(
                    f"setting the mode of a {type(block).__name__}",
                    "Gluon's own blocks have no mode, and follow autograd's scope: "
                    "autograd.record(train_mode=…), autograd.train_mode(), "
                    "autograd.predict_mode()",
                )
        for block in blocks:
            block.set_mode(is_training)
            if isinstance(block, HybridBlock):
                block._clear_cached_op()

    def modes(self, model: Model) -> Iterable[tuple[Model, bool]]:
        """The modes of layers of ``unidev.nn``."""
        blocks = blocks_of(model) if isinstance(model, Block) else ()
        return [(block, block._trains) for _, block in blocks if isinstance(block, Layer)]

    def sequence(self, model: Model) -> Sequence[Model]:
        """The layers of Gluon's sequential nets, unless they are compiled as a whole."""
        sequential = isinstance(model, (nn.Sequential, nn.HybridSequential))
        if not sequential or isinstance(model, Residual):
            return super().sequence(model)
        if getattr(model, "_active", False):
            raise UnsupportedOperation(
                "spreading a hybridized net",
                "its graph runs on one device: call net.hybridize(False)",
            )
        return list(model._children.values())

    def synchronized(self, model: Model, combine: CombineMoments) -> AbstractContextManager[None]:
        """Gluon's layers, and unidev's, unless they are hybridized."""
        return synchronized(model, combine, BatchNorm)

    def before(self, layer: Model, function: Callable[[Model, Tensor], Tensor]) -> None:
        """Replaces ``forward`` of this block: Gluon's hooks cannot change an input."""
        layer.forward = partial(_forward, layer.forward, layer, function)


def _forward(forward: Any, layer: Model, function: Any, *inputs: Tensor) -> Tensor:
    """In a ``partial``, of which a deep copy of the layer has one with itself; not in a closure."""
    return forward(*(function(layer, x) for x in inputs))


def portable_names(model: Model) -> dict[str, str]:
    """Checkpoint names by Gluon's own names, for the layers of ``unidev.nn``."""
    found: dict[str, str] = {}
    if not isinstance(model, Block):
        return found
    for path, block in blocks_of(model):
        if type(block) is BatchNorm:
            before = f"{path}." if path else ""
            found.update((before + own, before + name) for own, name in _PORTABLE.items())
    return found


def _filled(layer: Model, **weights: Array | None) -> Model:
    """``layer`` with its own arrays on the CPU. Does not draw from MXNet's generator."""
    with numpy_semantics(), autograd.pause():
        layer.initialize(mx.init.Zero(), ctx=mx.cpu())
        for name, values in weights.items():
            if values is not None:
                getattr(layer, name).data()._sync_copyfrom(values)
    return layer
