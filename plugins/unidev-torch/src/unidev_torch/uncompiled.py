"""Functions that ``torch.compile`` leaves to Python."""

from __future__ import annotations

import sys
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator

# Private: `torch.compiler.disable` would import the compiler, which takes seconds (2.13).
_frames: Any = torch._C._dynamo.eval_frame
_SKIP = _frames._FrameExecStrategy(_frames._FrameAction.SKIP, _frames._FrameAction.DEFAULT)
"""A function runs as it is; those that it calls are looked at again."""


def leave_to_python(*functions: Any) -> None:
    """Keep the compiler from following these, wherever they are called."""
    for function in functions:
        function._torchdynamo_disable = True  # called in what it follows
        _frames.set_code_exec_strategy(function.__code__, _SKIP)  # called in what it does not


def leave_what_is_loaded(*own: str) -> None:
    """Where it follows the caller no further, keep it from unidev's functions that come then.

    It would compile each of them, in pieces: 50 for one ``value_and_grad``. The user's function
    that they call is compiled, and so are ``unidev.nn``'s. ``own`` are modules of this plugin.
    """
    for name, module in list(sys.modules.items()):
        if name in own or (name.startswith("unidev.") and not name.startswith("unidev.nn")):
            for code in _codes_of(module, name):
                _frames.set_code_exec_strategy(code, _SKIP)


def _codes_of(owner: object, module: str) -> Iterator[CodeType]:
    """Those of all functions and methods that this module defines."""
    for value in vars(owner).values():
        function = getattr(value, "__func__", value)
        if isinstance(function, type) and function.__module__ == module:
            yield from _codes_of(function, module)
        elif isinstance(function, FunctionType) and function.__module__ == module:
            yield from _with_inner(function.__code__)


def _with_inner(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _with_inner(constant)


leave_to_python(leave_what_is_loaded)
