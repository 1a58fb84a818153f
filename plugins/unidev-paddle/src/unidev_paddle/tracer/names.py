"""The user's name for a call that moves something, read off the stack when it does."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from unidev.contract import outermost_name
from unidev_paddle.framework import paddle

if TYPE_CHECKING:
    from types import CodeType, FrameType

_SPOKEN = {"_TensorMethodOrModule.__call__": "paddle.tensor", "Tensor.new_init": "paddle.Tensor"}
_DECORATORS = {
    "wrapper", "wrapped_func", "__impl__", "_decorate_function", "_decorate_generator", "inner",
}  # fmt: skip
"""Wrapper functions of Paddle's."""
_GENERATED = "paddle.base.dygraph.generated_tensor_methods_patch"
"""Where ``paddle.sum`` and some fifty others are functions called ``_sum``, since 3.3."""


def called(default: str) -> str:
    """The outermost Paddle function between the user and here; without one, ``default``."""
    return outermost_name(_name_of, "paddle") or default


def _name_of(frame: FrameType) -> str | None:
    code = frame.f_code
    if code.co_name in _DECORATORS or code.co_name.startswith("<"):
        return None
    spelled = code.co_name
    if spelled[0] == spelled[-1] == "_" and spelled[1] != "_":  # `_float_` stands for `__float__`
        spelled = f"_{spelled}_"
    elif frame.f_globals.get("__name__") == _GENERATED:
        spelled = spelled.removeprefix("_")
    if _is_code_of(getattr(paddle.Tensor, spelled, None), code):
        return f"Tensor.{spelled}"
    if code.co_varnames[:1] == ("self",):
        owner = frame.f_locals.get("self")
        kind = "Tensor" if isinstance(owner, paddle.Tensor) else type(owner).__name__
        name = f"{kind}.{spelled}"
        return _SPOKEN.get(name, name)
    return f"paddle.{spelled}" if _is_code_of(getattr(paddle, spelled, None), code) else spelled


def _is_code_of(function: Any, code: CodeType) -> bool:
    return function is not None and getattr(inspect.unwrap(function), "__code__", None) is code
