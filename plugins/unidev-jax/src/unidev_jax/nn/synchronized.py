"""Batch normalisation by the statistics of all workers."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from unidev.contract import kind_of
from unidev.errors import UnsupportedOperation
from unidev_jax.arrays import has_values, value_of
from unidev_jax.framework import jax, jnp
from unidev_jax.models.flax import nnx
from unidev_jax.models.tree import modules_in
from unidev_jax.nn import functions
from unidev_jax.variables import assigning, plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from unidev.contract import CombineMoments, Model, Tensor


@contextmanager
def synchronized(model: Model, combine: CombineMoments, own: type[Any]) -> Iterator[None]:
    """A block in which these layers of ``model`` have a class of their own.

    In it, layers of ``own``, unidev's, have other ``moments``, and Flax's another ``__call__``.
    """

    def moments(_: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        return _moments(x, 1, combine)

    def call(
        self: Any, x: Tensor, use_running_average: bool | None = None, *, mask: Any = None
    ) -> Tensor:
        return _flaxs(self, x, combine, use_running_average, mask)

    with ExitStack() as block:
        for layer in _layers_of(model, own):
            is_ours = isinstance(layer, own)
            _give_class(layer, {"moments": moments} if is_ours else {"__call__": call}, block)
        yield


def _layers_of(model: Model, own: type[Any]) -> list[Any]:
    doing = f"synchronizing the batch normalisation of a {kind_of(model)}"
    inside = modules_in(model) if isinstance(model, nnx.Module) else ()
    found = [each for each in inside if isinstance(each, (own, nnx.BatchNorm))]
    if not found:
        raise UnsupportedOperation(doing, "it has no flax.nnx.BatchNorm")
    for layer in found:
        if isinstance(layer, own):
            continue
        if type(layer).__call__ is not nnx.BatchNorm.__call__ or not isinstance(layer.axis, int):
            raise UnsupportedOperation(
                doing,
                f"its {type(layer).__name__} has a __call__ of its own, or several axes: use "
                "flax.nnx.BatchNorm",
            )
        if layer.axis_name is not None:
            raise UnsupportedOperation(
                doing, f"its {type(layer).__name__} has an axis_name, over which JAX does it"
            )
    return found


def _give_class(layer: Any, methods: Mapping[str, Any], block: ExitStack) -> None:
    """Python looks ``__call__`` up in the class; copies of the layer have the same class."""
    kind = type(layer)
    metaclass: Any = type(kind)
    inner = metaclass(kind.__name__, (kind,), {**methods, "__module__": kind.__module__})
    object.__setattr__(layer, "__class__", inner)
    block.callback(object.__setattr__, layer, "__class__", kind)


def _flaxs(
    layer: Any, given: Tensor, combine: CombineMoments, is_average: bool | None, mask: Any
) -> Tensor:
    """``nnx.BatchNorm.__call__``; in training mode with the moments of all workers."""
    if layer.use_running_average if is_average is None else is_average:
        normed: Tensor = nnx.BatchNorm.__call__(layer, given, True, mask=mask)
        return normed
    if mask is not None:
        doing = f"synchronizing the batch normalisation of a {type(layer).__name__}"
        raise UnsupportedOperation(doing, "its input has a mask")
    weights = [None if each is None else plain(each) for each in (layer.scale, layer.bias)]
    known = [each for each in weights if each is not None]
    dtype = jnp.result_type(given, *known) if layer.dtype is None else jnp.dtype(layer.dtype)
    x = plain(given).astype(jnp.promote_types(dtype, jnp.float32))
    axis = layer.axis % x.ndim
    mean, variance = _moments(x, axis, combine)
    with assigning():
        for running, new in ((layer.mean, mean), (layer.var, variance)):
            old = plain(running)
            kept = functions.running(old, jax.lax.stop_gradient(new), layer.momentum)
            running.set_value(kept.astype(old.dtype))
    y: Tensor = _normalized(x, mean, variance, *weights, axis, layer.epsilon)
    return y.astype(dtype)


@partial(jax.jit, static_argnums=(5, 6))
def _normalized(  # noqa: PLR0913, PLR0917  what batch normalisation takes
    x: Tensor, mean: Tensor, variance: Tensor, scale: Any, bias: Any, axis: int, epsilon: float
) -> Tensor:
    along = [-1 if each == axis else 1 for each in range(x.ndim)]
    factor = jax.lax.rsqrt(variance + epsilon)
    factor = factor if scale is None else factor * scale
    y = (x - mean.reshape(along)) * factor.reshape(along)
    return y if bias is None else y + bias.reshape(along)


@partial(jax.jit, static_argnums=1)
def _own_moments(x: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """The mean of each channel, and the sum of squared deviations from it."""
    others = tuple(each for each in range(x.ndim) if each != axis)
    x = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    mean = x.sum(others) / max(x.size // x.shape[axis], 1)
    return mean, jnp.square(x - jnp.expand_dims(mean, others)).sum(others)


def _moments(x: Tensor, axis: int, combine: CombineMoments) -> tuple[Tensor, Tensor]:
    """The mean and the variance of each channel of all workers' inputs."""
    mean, deviations = _own_moments(x, axis)
    count = x.size // x.shape[axis]
    found: list[Any] = []

    def waited_for(mean: Tensor, deviations: Tensor) -> tuple[Tensor, Tensor]:
        if not has_values(mean):
            raise UnsupportedOperation(
                "synchronizing the batch normalisation of a compiled net",
                "nothing inside jax.jit can wait for other workers",
            )
        found[:] = [combine(value_of(mean), value_of(deviations), count), value_of(mean).device]
        return found[0].mean, found[0].variance

    def forward(*own: Tensor) -> tuple[tuple[Tensor, Tensor], None]:
        return waited_for(*own), None

    def backward(_: None, given: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        combined, device = found
        # JAX puts zeros, where nothing depends on one of the two, on its default device.
        pulled: tuple[Tensor, Tensor] = combined.gradients(
            *(jax.device_put(value_of(each), device) for each in given)
        )
        return pulled

    combined = jax.custom_vjp(waited_for)
    combined.defvjp(forward, backward)
    moments: tuple[Tensor, Tensor] = combined(mean, deviations)
    return moments
