"""The user's name for the running operation, read off the stack when a transfer is reported."""

from __future__ import annotations

import inspect
import os
import types
from typing import Any

import torch

from unidev.contract import outermost_name

_TORCH = os.path.dirname(torch.__file__) + os.sep

_OPERATORS = {"_to_copy": "Tensor.to", "to": "Tensor.to", "_local_scalar_dense": "Tensor.item"}
"""For when torch shows no call: its C++ made it, or Python that bypasses the modes."""

_PLUMBING = frozenset(
    {"__torch_function__", "__torch_dispatch__", "handle_torch_function", "__call__", "__iter__"}
)

_names: dict[types.CodeType, str | None] = {}


def operation_name(operator: Any, mode: types.CodeType) -> str:
    """The outermost public torch call made by a user's line, such as ``Tensor.item``.

    ``mode`` is the code of the function mode, whose frames hold the calls made to C++.
    """

    def name_of(frame: types.FrameType) -> str | None:
        if frame.f_code is mode:
            return call_name(frame.f_locals["func"])
        return _public_name(frame) if frame.f_code.co_filename.startswith(_TORCH) else None

    return outermost_name(name_of, "torch", "unidev_torch") or _operator_name(operator)


def call_name(function: Any) -> str:
    """The name of a function that was passed to a function mode."""
    if isinstance(function, (types.MethodDescriptorType, types.WrapperDescriptorType)):
        return f"Tensor.{function.__name__}"
    if isinstance(function, types.MethodWrapperType):  # x.T, x.data = ...: the getter or the setter
        return f"Tensor.{getattr(function.__self__, '__name__', function.__name__)}"
    if isinstance(function, torch._ops.OpOverload):  # from an exported program
        return _operator_name(function)
    resolved: str | None = torch.overrides.resolve_name(function)
    if resolved is None:
        return f"torch.{getattr(function, '__name__', type(function).__name__)}"
    return resolved.removeprefix("torch.") if resolved.startswith("torch.Tensor.") else resolved


def _operator_name(operator: Any) -> str:
    name = operator._schema.name.partition("::")[2]
    return _OPERATORS.get(name) or f"torch.{name}"


def _public_name(frame: types.FrameType) -> str | None:
    """``Module.to``, ``torch.save``; None for functions that users do not call by name."""
    code = frame.f_code
    if code not in _names:
        _names[code] = _find_public_name(frame)
    return _names[code]


def _find_public_name(frame: types.FrameType) -> str | None:
    code = frame.f_code
    name = code.co_name
    if code.co_flags & inspect.CO_NESTED or not _is_public(name) or name in _PLUMBING:
        return None
    owner = frame.f_locals.get("self")
    if owner is not None:
        return f"{_class_with(code, type(owner)).__name__}.{name}"
    module = str(frame.f_globals.get("__name__", ""))
    if getattr(getattr(torch, name, None), "__code__", None) is code:
        return f"torch.{name}"
    is_public = all(_is_public(part) for part in module.split("."))
    return f"{module}.{name}" if is_public else None


def _class_with(code: types.CodeType, cls: type) -> type:
    """The public class that ``code`` is a method of; for a private one, ``cls``."""
    for base in cls.__mro__:
        function = base.__dict__.get(code.co_name)
        if getattr(function, "__code__", None) is code and _is_public(base.__name__):
            return base
    return cls


def _is_public(name: str) -> bool:
    is_dunder = name.startswith("__") and name.endswith("__")
    return is_dunder or not name.startswith(("_", "<"))
