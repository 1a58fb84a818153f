"""Functions that were traced before a variable moved: they still use its old memory."""

from __future__ import annotations

import gc
import sys
import warnings
import weakref
from functools import cache
from typing import TYPE_CHECKING, Any

import tensorflow as tf  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from collections.abc import Iterable

_warned: weakref.WeakSet[Any] = weakref.WeakSet()


def traced_with(variables: Iterable[Any]) -> list[Any]:
    """The program's own ``tf.function``s that hold the memory of one of ``variables``.

    Keras's own are left out: it retraces them. Fast if no function holds any; otherwise scans every
    object of the process, since TensorFlow keeps no list of its functions.
    """
    held = {
        id(variable._handle)
        for variable in variables
        if sys.getrefcount(variable._handle) > _references_of_a_new_variable()
    }
    if not held:
        return []
    function_type = type(_example)
    return [
        found
        for found in gc.get_objects()
        if type(found) is function_type and not _is_kerass(found) and _holds(found, held)
    ]


def warn_once(functions: Iterable[Any]) -> None:
    """Warn of the functions for which no warning was given yet."""
    new = [function for function in functions if function not in _warned]
    if not new:
        return
    names = ", ".join(sorted(_name(function) for function in new))
    warnings.warn(
        f"traced before the model moved, these functions still use its old memory, which nothing "
        f"else does: {names}. Create such a tf.function again after place(model, device).",
        stacklevel=_level_of_the_caller(),
    )
    _warned.update(new)  # not before: a warning raised as an error undoes the move


def _level_of_the_caller() -> int:
    """The ``stacklevel`` of the line that calls ``place``."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals["__name__"].startswith("unidev"):
        level, frame = level + 1, frame.f_back
    return level


def _holds(function: Any, handles: set[int]) -> bool:
    # Not _list_all_concrete_functions(), which traces functions that were not called yet.
    return any(
        id(captured) in handles
        for concrete in function._function_cache.values()
        for captured in concrete.captured_inputs
    )


def _is_kerass(function: Any) -> bool:
    return str(getattr(function.python_function, "__module__", "")).partition(".")[0] == "keras"


def _name(function: Any) -> str:
    python_function = function.python_function
    name = getattr(python_function, "__qualname__", None) or repr(python_function)
    return str(name).replace("<locals>.", "")


@cache
def _references_of_a_new_variable() -> int:
    (variable,) = [tf.Variable(0.0)]
    return max(sys.getrefcount(variable._handle) for variable in [variable])


@tf.function  # type: ignore[untyped-decorator]
def _example() -> None:
    """Never called: its type, that of such functions, has no public name."""
