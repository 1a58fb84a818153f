"""The user's name for a call: the outermost call into MXNet; operators by their short names."""

from __future__ import annotations

import sys
from ctypes import byref, c_char_p, c_void_p
from functools import cache
from typing import TYPE_CHECKING, Any

from mxnet.base import _LIB, check_call  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from types import FrameType

_MODULES = {"numpy_extension": "npx", "ndarray": "nd"}
_COMMON = ("_npi_", "_npx_", "_np_", "_contrib_", "_")
_SHAPING = ("broadcast_to", "broadcast_like", "broadcast_axis", "broadcast_axes")


def outermost_call() -> str:
    """``ndarray.item``, ``mx.nd.array``, ``Accuracy.update``; the user's code is on the stack."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not _is_mxnets(frame):
        frame = frame.f_back
    outermost = None
    while frame is not None and _is_mxnets(frame):
        outermost, frame = frame, frame.f_back
    return "a call into MXNet" if outermost is None else _name(outermost)


def calling_function() -> str:
    """The MXNet function that calls its FFI, which does not pass function names."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and (
        not _is_mxnets(frame) or frame.f_globals["__name__"].startswith("mxnet._ffi")
    ):
        frame = frame.f_back
    return "an operator" if frame is None else frame.f_code.co_name


@cache
def _known_operator(address: int) -> str:
    name = c_char_p()
    check_call(_LIB.MXSymbolGetAtomicSymbolName(c_void_p(address), byref(name)))
    return (name.value or b"").decode()


def operator_name(handle: Any) -> str:
    """The name in MXNet's registry, such as ``_npi_add``."""
    return _known_operator(handle.value)


def short(operator: str) -> str:
    """``_npi_add`` and ``broadcast_add`` as ``add``."""
    for prefix in _COMMON:
        if operator.startswith(prefix):
            operator = operator[len(prefix) :]
            break
    if operator in _SHAPING:
        return operator
    return operator.removeprefix("broadcast_").removeprefix("elemwise_")


def _is_mxnets(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).partition(".")[0] == "mxnet"


def _name(frame: FrameType) -> str:
    code = frame.f_code
    name = code.co_name
    if name == "__array_function__":  # NumPy's own function, called with arrays of MXNet's
        return f"numpy.{frame.f_locals['func'].__name__}"
    if name in ("__reduce__", "__getstate__"):
        caller = frame.f_back
        if caller is not None and caller.f_globals.get("__name__") == "copy":
            return f"copy.{caller.f_code.co_name}"
        return "pickle"
    if code.co_argcount and code.co_varnames[0] == "self":
        return f"{type(frame.f_locals['self']).__name__}.{name}"
    parts = frame.f_globals["__name__"].split(".")
    if "numpy" in parts:  # also mxnet.ndarray.numpy
        return f"mx.np.{name}"
    top = ".".join(parts[:2])
    path = parts[1:2] if hasattr(sys.modules[top], name) else parts[1:]
    return ".".join(["mx", *(_MODULES.get(part, part) for part in path), name])
