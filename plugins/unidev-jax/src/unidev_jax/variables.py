"""Flax's variables, which hold a model's arrays: once Flax is imported, they are tensors, too."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from unidev.errors import UnsupportedOperation

if TYPE_CHECKING:
    from collections.abc import Iterator


def variable_types() -> tuple[type, ...]:
    """``flax.nnx.Variable``, if somebody has imported it: without that, there are none."""
    return _imported("Variable")


def model_types() -> tuple[type, ...]:
    """``flax.nnx.Module`` and ``Optimizer``, if somebody has imported them."""
    return _imported("Module") + _imported("Optimizer")


def is_variable(x: Any) -> bool:
    """Whether ``x`` is one of Flax's variables."""
    return isinstance(x, variable_types())


def plain(x: Any) -> Any:
    """The array in a variable, and any other object itself.

    As the model's own code reads it: a variable may have hooks that compute it.
    """
    return x.get_value() if is_variable(x) else x


@contextmanager
def assigning() -> Iterator[None]:
    """A block in which variables get other arrays.

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
