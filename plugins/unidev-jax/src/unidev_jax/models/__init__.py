"""Models on JAX: trees, Flax's modules, which are in ``modules``, and Keras's, in ``keras``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from unidev.contract import Models, TreeModels
from unidev_jax.arrays import is_random_key, key_numbers
from unidev_jax.framework import jax
from unidev_jax.variables import is_kerass, raw

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from unidev.contract import AnyModels, Array, Backend


def _forwarded(name: str) -> Any:
    """The method ``name`` of the models of the library whose object the first argument is."""

    def method(self: ModelsByLibrary, x: Any, *arguments: Any) -> Any:
        call: Callable[..., Any] = getattr(self.of(x), name)
        return call(x, *arguments)

    return method


class ModelsByLibrary(Models):
    """Models of Flax and of Keras, by a class for each; Keras's is imported for its first model."""

    rebuilds_containers = True

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self._flax = _flax_models(backend)
        self._keras: Models | None = None

    def of(self, x: Any) -> Any:
        """Those of the library that ``x`` is from: a model, an optimizer, or a part or tensor."""
        if not is_kerass(x):
            return self._flax
        if self._keras is None:
            from unidev_jax.models.keras import KerasModels

            self._keras = KerasModels(self.backend)
        return self._keras

    parameters = _forwarded("parameters")
    trainable = _forwarded("trainable")
    tensors = _forwarded("tensors")
    parts = _forwarded("parts")
    is_on = _forwarded("is_on")
    is_placed = _forwarded("is_placed")
    twin = _forwarded("twin")
    swap = _forwarded("swap")
    copy = _forwarded("copy")
    namespaces = _forwarded("namespaces")
    finish = _forwarded("finish")
    adapt = _forwarded("adapt")
    allocated = _forwarded("allocated")
    statistics = _forwarded("statistics")
    random_states = _forwarded("random_states")
    stored = _forwarded("stored")
    numbers = _forwarded("numbers")
    with_numbers = _forwarded("with_numbers")
    write = _forwarded("write")
    optimizer_state = _forwarded("optimizer_state")

    def unstorable(self, x: Any) -> str | None:
        """Random keys, whose numbers are another array's."""
        key = raw(x)
        if not is_random_key(key):
            return None
        return (
            "it is a random key: keep key = jax.random.key_data(key) in its place, which can be "
            f"saved; jax.random.wrap_key_data(key, impl={str(jax.random.key_impl(key))!r}) makes a "
            "key of it again"
        )

    def wait_for(self, twins: Sequence[Any]) -> None:
        """All copies have begun before the first is waited for: JAX makes them side by side."""
        jax.block_until_ready(twins)

    def read(self, x: Any) -> Array:
        """JAX's own memory, if that is on the host; of a random key, its numbers."""
        values: Array = np.asarray(key_numbers(raw(x)))
        return values.view(np.uint16) if values.dtype.name == "bfloat16" else values

    def load_optimizer_state(self, model: Any, optimizer: Any, state: Any) -> None:
        """By the optimizer's library."""
        self.of(optimizer).load_optimizer_state(model, optimizer, state)


def make_models(backend: Backend) -> Models:
    """``ModelsByLibrary``, for what the program imports."""
    return ModelsByLibrary(backend)


def _flax_models(backend: Backend) -> AnyModels:
    """``JaxModels``, which imports Flax; where that cannot be imported, trees alone."""
    try:
        from unidev_jax.models.modules import JaxModels
    except ImportError:
        return TreeModels(backend)
    return JaxModels(backend)
