"""JAX's autograd: of a function, with respect to its arguments."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from unidev.contract import Autograd
from unidev.errors import UnsupportedOperation
from unidev_jax.arrays import TRACER, is_tracing
from unidev_jax.copying import from_host, is_on_host, wide
from unidev_jax.framework import jax, jnp
from unidev_jax.variables import (
    assign,
    in_stateless_scope,
    is_keras_variable,
    is_variable,
    plain,
    raw,
    traced_outside,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager


class JaxAutograd(Autograd):
    """``jax.vjp``, which records only the function that it is given."""

    def leaf(self, x: Any) -> Any:
        """``x`` itself: it is an argument of what JAX differentiates, and changes nothing."""
        return x

    def of_tensors(
        self, loss_of: Callable[[Sequence[Any]], Any], leaves: Sequence[Any]
    ) -> tuple[Any, Sequence[Any | None]]:
        """Also under ``jax.jit`` and inside another function that is differentiated."""

        def function(arrays: Sequence[Any]) -> tuple[Any, None]:
            return plain(loss_of(arrays)), None

        loss, found, _ = _differentiated(function, [plain(leaf) for leaf in leaves])
        return loss, found

    def of_model(
        self, loss_of: Callable[[Any], Any], model: Any, trainable: Mapping[str, Any]
    ) -> tuple[Any, Sequence[Any | None]]:
        """The gradients of a copy of the module whose variables hold what JAX differentiates.

        A model of Keras's is called itself, in a scope in which its variables have those values.
        Variables that the loss has changed there, such as running statistics, change in ``model``.

        Raises:
            UnsupportedOperation: JAX traces a function in which Keras's variables are constants.
        """
        leaves = list(trainable.values())
        if not is_variable(leaves[0]):
            return super().of_model(loss_of, model, trainable)
        represented = _represented(model, leaves)
        evaluated = partial(represented.evaluated, loss_of)
        loss, found, changes = _differentiated(evaluated, [raw(leaf) for leaf in leaves])
        represented.apply(changes)
        return loss, found

    def no_grad(self) -> AbstractContextManager[Any]:
        """Nothing to do outside of a traced function, where JAX records nothing.

        Raises:
            UnsupportedOperation: JAX is tracing a function, and cannot stop that.
        """
        if is_tracing():
            raise UnsupportedOperation(
                "no_grad inside a function that JAX differentiates or compiles",
                "JAX records all that depends on its arguments: jax.lax.stop_gradient(x) detaches "
                "one array",
                "https://docs.jax.dev/en/latest/_autosummary/jax.lax.stop_gradient.html",
            )
        return nullcontext()

    def detached(self) -> AbstractContextManager[Any]:
        """Nothing to do: only what depends on a function's arguments is recorded."""
        return nullcontext()

    def match(self, parameters: Sequence[Any], gradients: Sequence[Any]) -> bool:
        """By shape, dtype and sharding; in a traced function by shape and dtype."""
        for parameter, gradient in zip(parameters, gradients, strict=True):
            x, given = plain(parameter), plain(gradient)
            if not isinstance(given, jax.Array) or x.shape != given.shape:
                return False
            if isinstance(x, TRACER) or isinstance(given, TRACER):
                continue  # XLA places them
            if x.sharding != given.sharding or x.is_deleted() or given.is_deleted():
                return False
        return True

    def descend(
        self, parameters: Sequence[Any], gradients: Sequence[Any], lr: float
    ) -> Sequence[Any]:
        """New arrays, made by one compiled program for all that are on one device.

        A variable is assigned its new array, and stays the same object.
        """
        xs, given = [plain(x) for x in parameters], [plain(x) for x in gradients]
        new: list[Any] = [None] * len(xs)
        for positions in _by_device(xs):
            chosen = [xs[at] for at in positions], [given[at] for at in positions]
            with wide(jnp.result_type(*chosen[0])):
                made = _stepped(*chosen, lr)
            for at, x in zip(positions, made, strict=True):
                new[at] = x
        for at, parameter in enumerate(parameters):
            if is_variable(parameter):
                assign(parameter, new[at])
                new[at] = parameter
        return new


def _represented(model: Any, leaves: Sequence[Any]) -> Any:
    """A ``Representation`` of Flax's module, or ``Stateless`` calls with Keras's model."""
    if not is_keras_variable(leaves[0]):
        from unidev_jax.models.represented import Representation

        return Representation(model, leaves)
    from unidev_jax.models.keras import Stateless

    if is_tracing() and not in_stateless_scope():
        raise traced_outside("value_and_grad of a Keras model inside a function that JAX traces")
    return Stateless(model, leaves)


def _differentiated(
    function: Callable[[Sequence[Any]], tuple[Any, Any]], arrays: Sequence[Any]
) -> tuple[Any, Sequence[Any | None], Any]:
    """The loss, its gradients, and what ``function`` returns beside it."""
    is_reached = False

    def seen(xs: Sequence[Any]) -> tuple[Any, Any]:
        nonlocal is_reached
        loss, beside = function(xs)
        is_reached = isinstance(loss, TRACER)
        return loss, beside

    loss, pull, beside = jax.vjp(seen, list(arrays), has_aux=True)
    if not is_reached:
        return loss, [None] * len(arrays), beside
    # On the device of the loss, or a gradient that is nothing but this number would not be there.
    (found,) = pull(_one_like(loss))
    return loss, [_beside(each, x) for each, x in zip(found, arrays, strict=True)], beside


def _one_like(loss: Any) -> Any:
    if isinstance(loss, TRACER):
        return jnp.ones_like(loss)
    if is_on_host(loss):
        (native,) = loss.sharding.device_set
        return from_host(np.ones(loss.shape, loss.dtype), native)
    with wide(loss.dtype):
        return jnp.ones_like(loss, device=loss.sharding)


def _beside(gradient: Any, x: Any) -> Any:
    """``gradient`` on the device of ``x``: JAX leaves some where the loss was computed."""
    if isinstance(x, TRACER) or isinstance(gradient, TRACER):
        return gradient
    if gradient.sharding == x.sharding and gradient.committed:
        return gradient
    with wide(gradient.dtype):
        return jax.device_put(gradient, x.sharding)


def _by_device(xs: Sequence[Any]) -> Iterable[list[int]]:
    """Positions of arrays that one program can take."""
    positions: dict[Any, list[int]] = {}
    for at, x in enumerate(xs):
        key = None if isinstance(x, TRACER) else x.sharding
        positions.setdefault(key, []).append(at)
    return positions.values()


def _subtracted(xs: list[Any], gradients: list[Any], lr: Any) -> list[Any]:
    return [x - lr * gradient for x, gradient in zip(xs, gradients, strict=True)]


_stepped = jax.jit(_subtracted)
