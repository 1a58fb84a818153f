"""TensorFlow's variables: finding them, and exchanging the memory of two."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from tensorflow.python import pywrap_tfe  # type: ignore[import-untyped]
from tensorflow.python.eager import context  # type: ignore[import-untyped]

from unidev_tensorflow.deep_copy.eager import HOSTED_NUMBERS
from unidev_tensorflow.tensors import is_keras_variable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    Part = Sequence[Any]
    """Variables on one device that move together; of a twin, the ``Twin``s for them."""

_execute = pywrap_tfe.TFE_Py_Execute
_TOGETHER = 16
"""How many variables make a part: each part takes several calls."""


def native_variable(x: Any) -> Any:
    """TensorFlow's variable behind one of Keras's; anything else is returned unchanged."""
    return x._value if is_keras_variable(x) else x


def parts_of(variables: Iterable[Any]) -> list[Part]:
    """``variables`` by device; apart those of dtypes that stay on the host if others move."""
    groups: dict[tuple[str, bool], list[Any]] = {}
    for variable in variables:
        kind = variable._handle.device, variable.dtype.as_datatype_enum in HOSTED_NUMBERS
        groups.setdefault(kind, []).append(variable)
    return [
        group[start : start + _TOGETHER]
        for group in groups.values()
        for start in range(0, len(group), _TOGETHER)
    ]


def values_of(part: Part, name: str) -> list[Any]:
    """The values of the variables, which are on the device called ``name``; they share the memory.

    One operation, which has no public name, reads them all in the time that it takes to read one.
    """
    handles = [variable._handle for variable in part]
    numbers = [variable.dtype.as_datatype_enum for variable in part]
    count, running = len(handles), context.context()._handle
    kinds = ("N", count, "dtypes", numbers)
    values: list[Any] = _execute(running, name, "_ReadVariablesOp", handles, kinds, count)
    return values


class Twin:
    """A handle for ``swap_handles``, without the variable."""

    __slots__ = ("__weakref__", "_handle")

    def __init__(self, handle: Any) -> None:
        self._handle = handle


def twin_of(part: Part, values: Sequence[Any], name: str) -> list[Twin]:
    """Handles like those of the variables, on the device called ``name``.

    They hold ``values``, whose memory they share. They are made in half the time of variables, by
    the operations behind those, one kind after the other: the processor has the code at hand.
    """
    running = context.context()._handle
    # The name has TensorFlow free the memory with the last reference, as for its own variables.
    shared_name = context.anonymous_name()
    numbers = [variable.dtype.as_datatype_enum for variable in part]
    twins = []
    for variable, number in zip(part, numbers, strict=True):
        shape = variable.shape
        sizes = None if shape.rank is None else shape.as_list()  # TensorFlow reads a list faster
        kind = ("shared_name", shared_name, "dtype", number, "shape", sizes)
        twins.append(Twin(*_execute(running, name, "VarHandleOp", [], kind, 1)))
    for twin, value, number in zip(twins, values, numbers, strict=True):
        assigned = [twin._handle, value]
        _execute(running, name, "AssignVariableOp", assigned, ("dtype", number), 0)
    for twin, variable in zip(twins, part, strict=True):
        new, old = twin._handle, variable._handle
        new._handle_data = old._handle_data  # of shape and dtype, for functions that trace it
        new._name = old._name
        new._unique_id = f"{old._unique_id}_twin"
        new._parent_trackable = weakref.ref(twin)
    return twins


def swap(part: Part, twin: Part) -> None:
    """Exchange the memory of the two; each variable stays itself."""
    handles = [variable._handle for variable in part]
    try:
        for one, other in zip(part, twin, strict=True):
            swap_handles(one, other)
    except BaseException:  # Ctrl-C may come between any two lines
        for one, other, handle in zip(part, twin, handles, strict=True):
            if one._handle is not handle:
                swap_handles(one, other)
        raise


def swap_handles(one: Any, other: Any) -> None:
    """Exchange the memory of two TensorFlow variables, or of one and a twin; each stays itself.

    ``assign`` under ``tf.device`` moves nothing, and a new variable would orphan the holders of the
    old one: optimizers, Keras's variables, checkpoints. A variable has its memory by a handle,
    and its device is the handle's: exchanging the two handles moves it. This is not a public API.
    Tested on TensorFlow 2.16.2 and 2.21.0 with Keras 3.3 and 3.15; ``tests/test_handles.py`` fails
    first if a version changes this.

    Each handle refers to its variable, which is how an exported function finds it:
    https://github.com/tensorflow/tensorflow/blob/master/tensorflow/python/eager/polymorphic_function/saved_model_exported_concrete.py
    """
    mine, others = one._handle, other._handle
    owners = mine._parent_trackable, others._parent_trackable
    ids = mine._unique_id, others._unique_id
    # Nothing is called from here on, so nothing can interrupt: no error, and no Ctrl-C.
    one._handle, other._handle = others, mine
    others._parent_trackable, mine._parent_trackable = owners
    others._unique_id, mine._unique_id = ids
