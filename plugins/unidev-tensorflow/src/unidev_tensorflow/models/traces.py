"""Traces of the program's own ``tf.function``s that hold a variable's memory.

A trace keeps the handles that it met, so a function would use a variable's old memory after a move.
Its traces therefore are a part that moves: it gets new ones, and traces again when it is next
called.
"""

from __future__ import annotations

import gc
import sys
import weakref
from functools import cache
from typing import TYPE_CHECKING, Any

import tensorflow as tf  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unidev.contract import Device

_known: weakref.WeakSet[Any] = weakref.WeakSet()
"""Functions found so far."""


class Traces:
    """The traces of a function on ``device``; as a twin, those that it gets there."""

    __slots__ = ("_function", "device", "state")

    def __init__(self, function: Any, device: Device) -> None:
        self._function = weakref.ref(function)
        self.device = device
        # As a new tf.function has them: caches and captures, and nothing traced yet. Tested on
        # TensorFlow 2.16.2 and 2.21.0.
        self.state = (
            type(function._function_cache)(), type(function._function_captures)(),
            None, None, None, None,
        )  # fmt: skip

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Traces) and self._function == other._function

    def __hash__(self) -> int:
        return hash(self._function)

    def twin(self, device: Device) -> Traces:
        """None yet, for ``device``."""
        return Traces(self._function() or _example, device)

    def swap(self, twin: Traces) -> None:
        """Exchange the traces of the function with those of ``twin``."""
        f = self._function()
        if f is None:
            return
        mine = (
            f._function_cache, f._function_captures, f._created_variables,
            f._variable_creation_config, f._no_variable_creation_config,
            getattr(f, "_concrete_variable_creation_fn", None),
        )  # fmt: skip
        # Nothing is called from here on, so nothing can interrupt.
        (
            f._function_cache, f._function_captures, f._created_variables,
            f._variable_creation_config, f._no_variable_creation_config,
            f._concrete_variable_creation_fn,
        ) = twin.state  # fmt: skip
        twin.state = mine
        self.device, twin.device = twin.device, self.device


def traces_of(
    variables: Sequence[Any], device_of: Any, known: Sequence[Traces] | None
) -> list[Traces]:
    """Those of the program's own ``tf.function``s that hold the memory of one of ``variables``.

    Keras's own are left out: it retraces them. Fast if no function holds any, or, given those that
    are ``known``, no other since; otherwise scans every object of the process, since TensorFlow
    keeps no list of its functions.
    """
    held = {}
    for variable in variables:
        handle = variable._handle
        references = sys.getrefcount(handle)
        seen = references, len(_known)
        if references > _references_of_a_new_variable() + 1 and not (
            known is not None and getattr(handle, "_unidev_seen", None) == seen
        ):
            held[id(handle)] = variable
    if not held:
        return []
    function_type = type(_example)
    found = {}
    for function in gc.get_objects():
        if type(function) is function_type and not _is_kerass(function):
            variable = held.get(_held_by(function, held))
            if variable is not None:
                found[function] = Traces(function, device_of(variable))
    _known.update(found)
    for variable in held.values():
        variable._handle._unidev_seen = sys.getrefcount(variable._handle) + 1, len(_known)
    return [each for each in found.values() if each not in (known or ())]


def _held_by(function: Any, handles: Any) -> int:
    # Not _list_all_concrete_functions(), which traces functions that were not called yet.
    return next(
        (
            id(captured)
            for concrete in function._function_cache.values()
            for captured in concrete.captured_inputs
            if id(captured) in handles
        ),
        0,
    )


def _is_kerass(function: Any) -> bool:
    return str(getattr(function.python_function, "__module__", "")).partition(".")[0] == "keras"


@cache
def _references_of_a_new_variable() -> int:
    (variable,) = [tf.Variable(0.0)]
    return max(sys.getrefcount(variable._handle) for variable in [variable])


@tf.function  # type: ignore[untyped-decorator]
def _example() -> None:
    """Never called: its type, that of such functions, has no public name."""
