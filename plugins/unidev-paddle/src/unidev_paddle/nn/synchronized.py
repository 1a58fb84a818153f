"""Batch normalisation by the statistics of all workers."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from unidev.errors import UnsupportedOperation
from unidev_paddle.framework import paddle

if TYPE_CHECKING:
    from collections.abc import Iterator

    from unidev.contract import CombineMoments, Tensor

    Layer = Any

_Base: Any = paddle.nn.BatchNorm2D.__base__  # of those for 1 to 3 dimensions; it has no public name
_LAST = ("NLC", "NHWC", "NDHWC")
"""Data formats whose last axis is that of the channels; ``NC`` has it there, too."""
_NARROW = (paddle.float16, paddle.bfloat16)


@contextmanager
def synchronized(model: Layer, combine: CombineMoments, own: type[Layer]) -> Iterator[None]:
    """A block in which the ``forward`` of these layers of ``model`` is ``_forward``."""
    layers = _layers_of(model, own)
    with ExitStack() as block:
        for layer in layers:
            layer.forward = partial(_forward, layer, combine)
            block.callback(delattr, layer, "forward")
        yield


def _layers_of(model: Layer, own: type[Layer]) -> list[Layer]:
    doing = f"synchronizing the batch normalisation of a {type(model).__name__}"
    kinds = (_Base, paddle.nn.BatchNorm)
    found = [each for each in model.sublayers(include_self=True) if isinstance(each, kinds)]
    if not found:
        raise UnsupportedOperation(doing, "it has no layers such as paddle.nn.BatchNorm2D")
    known = (_Base.forward, paddle.nn.SyncBatchNorm.forward, own.forward)
    for layer in found:
        forward = layer.forward
        if getattr(forward, "__func__", None) not in known:
            raise UnsupportedOperation(
                doing,
                f"its {type(layer).__name__} has a forward of its own, or a compiled one: use "
                "paddle.nn.BatchNorm1D, BatchNorm2D or BatchNorm3D, not compiled",
            )
    return found


def _forward(layer: Layer, combine: CombineMoments, given: Tensor) -> Tensor:
    if not layer.training or layer._use_global_stats:
        return type(layer).forward(layer, given)
    x = given.astype("float32") if given.dtype in _NARROW else given
    axis = len(x.shape) - 1 if layer._data_format in _LAST else 1
    others = [each for each in range(len(x.shape)) if each != axis]
    along = [-1 if each == axis else 1 for each in range(len(x.shape))]
    count = x.size // x.shape[axis]
    mean = x.sum(others) / max(count, 1)
    deviations = (x - mean.reshape(along)).square().sum(others)
    mean, variance = _Combined.apply(mean, deviations, count, combine)
    with paddle.no_grad():
        for running, new in ((layer._mean, mean), (layer._variance, variance)):
            kept = running * layer._momentum + new.astype(running.dtype) * (1 - layer._momentum)
            paddle.assign(kept, running)
    scale = (variance + layer._epsilon).rsqrt()
    scale = scale if layer.weight is None else scale * layer.weight
    y = (x - mean.reshape(along)) * scale.reshape(along)
    y = y if layer.bias is None else y + layer.bias.reshape(along)
    return y.astype(given.dtype)


class _Combined(paddle.autograd.PyLayer):  # type: ignore[misc]  # Paddle is untyped here
    """The moments of all workers' values, from those of this worker's."""

    @staticmethod
    def forward(
        ctx: Any, mean: Tensor, deviations: Tensor, count: int, combine: CombineMoments
    ) -> tuple[Tensor, Tensor]:
        """Waits for the other workers."""
        found = combine(mean, deviations, count)
        ctx.gradients = found.gradients
        return found.mean, found.variance

    @staticmethod
    def backward(ctx: Any, by_mean: Tensor, by_variance: Tensor) -> tuple[Tensor, Tensor]:
        """Waits for them, too."""
        found: tuple[Tensor, Tensor] = ctx.gradients(by_mean, by_variance)
        return found
