"""The user's name for a call that moves something, read off the stack when it does."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import tensorflow as tf  # type: ignore[import-untyped]

from unidev.contract import outermost_name

if TYPE_CHECKING:
    from types import FrameType

_DECORATORS = {"error_handler", "op_dispatch_handler", "wrapper", "wrapped", "sugar"}
"""Wrapper functions of TensorFlow and Keras, which hold the wrapped one in a variable."""
_INNER = ("fn", "dispatch_target", "func", "f", "target")
_OPERATORS = {
    "_slice_helper": "Tensor.__getitem__",
    "_slice_helper_var": "Variable.__getitem__",
    "tensor_equals": "Tensor.__eq__",
    "tensor_not_equals": "Tensor.__ne__",
    "__reduce__": "pickle",
}
_ITERATOR = "_TensorIterator"
"""The type of ``iter(x)``."""


def called(operation: str) -> str:
    """The outermost TensorFlow or Keras call made by a user's line.

    ``operation`` is TensorFlow's name of the operation, for when Python shows no call.
    """
    return outermost_name(_name_of, "keras", "tensorflow") or operation


def _name_of(frame: FrameType) -> str | None:
    code = frame.f_code
    spelled = code.co_name
    if spelled in _OPERATORS:
        return _OPERATORS[spelled]
    if spelled in ("binary_op_wrapper", "r_binary_op_wrapper"):
        # Variables are read first, so that their operators are those of tensors.
        return f"Tensor.__{'r' * (spelled[0] == 'r')}{frame.f_locals['op_name']}__"
    if spelled in _DECORATORS:
        return _public_name(next(filter(callable, map(frame.f_locals.get, _INNER)), None))
    if spelled.startswith("<"):
        return None
    if code.co_varnames[:1] == ("self",) and code.co_argcount:
        return _method_name(frame.f_locals.get("self"), spelled)
    return _public_name(_function_of(frame))


def _method_name(owner: Any, spelled: str) -> str | None:
    is_operator = spelled.startswith("__") and spelled.endswith("__")
    if spelled.startswith("_") and not is_operator:
        return None
    if isinstance(owner, tf.Tensor):
        return f"Tensor.{spelled}"
    if isinstance(owner, tf.Variable):
        return f"Variable.{spelled}"
    kind = type(owner).__name__
    return "Tensor.__iter__" if kind == _ITERATOR else f"{kind}.{spelled}"


def _function_of(frame: FrameType) -> Any:
    found = frame.f_globals.get(frame.f_code.co_name)
    undecorated = inspect.unwrap(found) if inspect.isfunction(found) else None
    return undecorated if getattr(undecorated, "__code__", None) is frame.f_code else None


def _public_name(function: Any) -> str | None:
    """``tf.matmul``: the shortest name under which TensorFlow exports it."""
    if function is None:
        return None
    undecorated = inspect.unwrap(function)
    name = getattr(undecorated, "__name__", "")
    if name in _OPERATORS:
        return _OPERATORS[name]
    for prefix, attribute in (("tf", "_tf_api_names"), ("tf.compat.v1", "_tf_api_names_v1")):
        exported = getattr(undecorated, attribute, None)
        if exported:
            return f"{prefix}.{min(exported, key=lambda name: (name.count('.'), len(name)))}"
    return None
