"""Batch normalisation by the statistics of all workers."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import mxnet as mx  # type: ignore[import-untyped]
from mxnet import autograd
from mxnet.gluon import Block, nn  # type: ignore[import-untyped]

from unidev.errors import UnidevError, UnsupportedOperation
from unidev_mxnet.models.tree import blocks_of
from unidev_mxnet.scopes import numpy_semantics

if TYPE_CHECKING:
    from collections.abc import Iterator

    from unidev.contract import CombineMoments, Model, Tensor

_Base: Any = nn.BatchNorm.__base__  # also of contrib's; it has no public name


@contextmanager
def synchronized(model: Model, combine: CombineMoments, own: type[Block]) -> Iterator[None]:
    """A block in which these layers of ``model`` normalise by all workers' statistics.

    Backward runs in threads of MXNet's, and is awaited here: other exchanges come after its own.
    """
    layers = _layers_of(model, own)
    order = _Order(combine)
    with ExitStack() as block:
        for layer in layers:
            layer.hybrid_forward = partial(_forward, layer, order, own)
            block.callback(vars(layer).pop, "hybrid_forward")
        try:
            yield
        finally:
            if order.was_used:
                mx.nd.waitall()
            if order.error is not None:
                raise order.error


def _layers_of(model: Model, own: type[Block]) -> list[Block]:
    doing = f"synchronizing the batch normalisation of a {type(model).__name__}"
    blocks = [block for _, block in blocks_of(model)] if isinstance(model, Block) else []
    found = [block for block in blocks if isinstance(block, _Base)]
    if not found:
        raise UnsupportedOperation(doing, "it has no gluon.nn.BatchNorm")
    known = (_Base.hybrid_forward, own.hybrid_forward)
    for block in found:
        if type(block).hybrid_forward not in known:
            raise UnsupportedOperation(
                doing,
                f"its {type(block).__name__} has a forward of its own: use gluon.nn.BatchNorm",
            )
    if any(getattr(block, "_active", False) for block in blocks):
        raise UnsupportedOperation(
            doing,
            "it is hybridized, and nothing can wait for other workers inside its graph: call "
            "net.hybridize(False)",
        )
    return found


class _Order:
    """The order of the layers in one forward, and the first error of backward's threads."""

    def __init__(self, combine: CombineMoments) -> None:
        self.combine = combine
        self.error: UnidevError | None = None
        self.was_used = False
        self._last: Tensor = None

    def combined(self, mean: Tensor, deviations: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """The moments of all workers' values, from those of this worker's."""
        self.was_used = True
        last = mx.np.zeros_like(mean) if self._last is None else self._last
        mean, variance, self._last = _Combined(self, count)(mean, deviations, last)
        return mean, variance


class _Combined(autograd.Function):  # type: ignore[misc]  # MXNet is untyped
    """Gives the next layer something whose gradient that one hands back.

    So backward comes to the layers one by one, in the same order on every worker, whatever branches
    the net has.
    """

    def __init__(self, order: _Order, count: int) -> None:
        super().__init__()
        self._order = order
        self._count = count
        self._gradients: Any = None

    def forward(self, mean: Tensor, deviations: Tensor, last: Tensor) -> tuple[Tensor, ...]:
        """Waits for the other workers."""
        found = self._order.combine(mean, deviations, self._count)
        self._gradients = found.gradients
        return found.mean, found.variance, mx.np.zeros_like(last)

    def backward(self, by_mean: Tensor, by_variance: Tensor, by_next: Tensor) -> tuple[Tensor, ...]:
        """Waits for them, too. An error is kept: in this thread, MXNet would only print it."""
        with numpy_semantics():
            given = [x.as_np_ndarray() for x in (by_mean, by_variance)]
            by_next.wait_to_read()
            if self._order.error is None:
                try:
                    given = list(self._gradients(*given))
                except UnidevError as error:
                    self._order.error = error
            return (*(x.as_nd_ndarray() for x in given), mx.nd.zeros_like(by_next))


def _forward(
    layer: Block,
    order: _Order,
    own: type[Block],
    F: Any,  # noqa: N803  Gluon's own
    x: Tensor,
    **arrays: Tensor,
) -> Tensor:
    is_own = isinstance(layer, own)
    trains = layer._trains if is_own else autograd.is_training()
    if not trains or layer._kwargs["use_global_stats"]:
        return type(layer).hybrid_forward(layer, F, x, **arrays)
    is_numpy = isinstance(x, mx.np.ndarray)
    with numpy_semantics():
        arrays = {name: each.as_np_ndarray() for name, each in arrays.items()}
        y = _normalised(layer._kwargs, order, x.as_np_ndarray(), arrays)
        if layer.fuse_relu and not is_numpy:
            y = mx.npx.relu(y)
        return y if is_numpy else y.as_nd_ndarray()


def _normalised(
    options: dict[str, Any], order: _Order, given: Tensor, arrays: dict[str, Tensor]
) -> Tensor:
    x = given.astype("float32") if given.dtype.itemsize == 2 else given
    axis = options["axis"] % x.ndim
    others = tuple(each for each in range(x.ndim) if each != axis)
    along = tuple(-1 if each == axis else 1 for each in range(x.ndim))
    count = x.size // x.shape[axis]
    mean = x.sum(others) / max(count, 1)
    deviations = mx.np.square(x - mean.reshape(along)).sum(others)
    mean, variance = order.combined(mean, deviations, count)
    with autograd.pause(train_mode=True):
        kept = options["momentum"]
        for name, new in (("running_mean", mean), ("running_var", variance)):
            running = arrays[name]
            running[:] = kept * running + (1.0 - kept) * new
    scale = 1.0 / mx.np.sqrt(variance + options["eps"])
    if not options["fix_gamma"]:
        scale = scale * arrays["gamma"]
    y = (x - mean.reshape(along)) * scale.reshape(along) + arrays["beta"].reshape(along)
    return y.astype(given.dtype)
