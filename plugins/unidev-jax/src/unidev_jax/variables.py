"""Variables of Flax and Keras, which hold a model's arrays: tensors, once the library is imported.

Keras counts where it runs on JAX: with another backend, its variables are that framework's.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from unidev.errors import UnsupportedOperation
from unidev_jax.framework import jax

if TYPE_CHECKING:
    from collections.abc import Iterator


def variable_types() -> tuple[type, ...]:
    """``flax.nnx.Variable`` and ``keras.Variable``; without their libraries, there are none."""
    found = _imported("Variable")
    return found + _of_keras("Variable") if "keras" in sys.modules else found  # on hot paths


def model_types() -> tuple[type, ...]:
    """``keras.Layer`` and ``flax.nnx.Pytree``: modules, optimizers, metrics, ``Rngs``."""
    return _imported("Pytree") + _of_keras("Layer")


def keras_optimizers() -> tuple[Any, ...]:
    """``keras.optimizers.Optimizer``."""
    keras = _keras()
    return () if keras is None else (keras.optimizers.Optimizer,)


def is_variable(x: Any) -> bool:
    """Whether ``x`` is one of Flax's or Keras's variables."""
    return isinstance(x, variable_types())


def is_keras_variable(x: Any) -> bool:
    """Whether ``x`` is one of Keras's variables."""
    return isinstance(x, _of_keras("Variable"))


def is_kerass(x: Any) -> bool:
    """Whether ``x`` is a layer, a model, a variable or an optimizer of Keras's."""
    return isinstance(x, _of_keras("Layer") + _of_keras("Variable") + keras_optimizers())


def plain(x: Any) -> Any:
    """The array in a variable, and any other object itself.

    As the model's own code reads it: a variable may have hooks that compute it.
    """
    if not is_variable(x):
        return x
    return x.value if is_keras_variable(x) else x.get_value()


def raw(x: Any) -> Any:
    """The array of a variable as it is kept, and any other object itself."""
    if not is_variable(x):
        return x
    return x.value if is_keras_variable(x) else x.get_raw_value()


def assign(variable: Any, value: Any) -> None:
    """Give a variable the array ``value``.

    Raises:
        UnsupportedOperation: it is from outside of the function that is being traced.
    """
    if not is_keras_variable(variable):
        with assigning():
            variable.set_value(value)
        return
    if isinstance(value, jax.core.Tracer) and not in_stateless_scope():
        raise traced_outside("changing a variable of Keras inside jax.jit")
    variable.assign(value)


def traced_outside(operation: str) -> UnsupportedOperation:
    """The error for using Keras's variables in a traced function that was not given their values.

    Keras itself would keep what JAX traces in the variable, or compile its value in.
    """
    return UnsupportedOperation(
        operation,
        "a Keras model is no argument of a traced function: give it the variables' values, use "
        "them in a keras.StatelessScope, and return those that the scope has in the end",
        "https://keras.io/guides/writing_a_custom_training_loop_in_jax/",
    )


def in_stateless_scope() -> bool:
    """Whether Keras's variables have the values of a ``keras.StatelessScope`` here."""
    with _keras().StatelessScope(initialize_variables=False) as inner:
        return inner.original_scope is not None


@contextmanager
def assigning() -> Iterator[None]:
    """A block in which variables of Flax's get other arrays.

    Raises:
        UnsupportedOperation: one is from outside of the function that is being traced.
    """
    errors = getattr(sys.modules.get("flax.errors"), "TraceContextError", ())
    try:
        yield
    except errors as error:
        raise UnsupportedOperation(
            "changing a variable of Flax inside jax.jit",
            "it is from outside of the traced function: pass the model to one that flax.nnx.jit "
            "compiles",
            "https://flax.readthedocs.io/en/stable/guides/transforms.html",
        ) from error


def _imported(name: str) -> tuple[type, ...]:
    found = getattr(sys.modules.get("flax.nnx"), name, None)  # none while Flax is being imported
    return () if found is None else (found,)


def _of_keras(name: str) -> tuple[type, ...]:
    keras = _keras()
    return () if keras is None else (getattr(keras, name),)


def _keras() -> Any:
    """Keras, if somebody has imported it and it runs on JAX, which it then does for good."""
    keras: Any = sys.modules.get("keras")
    return keras if keras is None or keras is _known[0] else _checked(keras)


def _checked(keras: Any) -> Any:
    if not hasattr(keras, "optimizers"):  # it is being imported
        return None
    if keras.backend.backend() != "jax":
        return None
    _known[0] = keras
    return keras


_known: list[Any] = [None]
"""Keras, once it was found to be imported completely."""
