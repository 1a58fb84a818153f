"""Simulated GPUs that lack dtypes: a tensor of one on them is refused where it reaches Python.

Paddle's device interface sees memory without a dtype, and kernels are chosen by the dtype of their
inputs: no kernel says no to ``x.astype("float64")`` or to a copy. So the functions through which
Python reaches Paddle's C++ are replaced for the lifetime of the process, and their results looked
at. What C++ keeps to itself, as inside a compiled program, is not seen.
"""

from __future__ import annotations

import sys
from functools import wraps
from typing import Any

from unidev_paddle.framework import DTYPES, core, paddle
from unidev_paddle.tracer.names import called
from unidev_paddle.tracer.patches import OPERATIONS, OPERATORS, builtins_of, may_hold

_METHODS = (*(f"__{name}__" for name in OPERATORS), "_copy_to", "_getitem_dygraph")
_FILLING = ("__init__", "copy_", "set_tensor")
"""Methods whose tensor is the result."""
_ENGINE = (
    "_run_custom_op", "jit_function_call", "read_next_tensor_list", "run_partial_grad",
    "sparse_coo_tensor", "sparse_csr_tensor",
)  # fmt: skip
_lacks: dict[Any, str] = {}
"""Names, by Paddle's dtypes."""


def lack(names: tuple[str, ...]) -> None:
    """Have all simulated GPUs refuse these dtypes, as far as Paddle has them."""
    _lacks.update({getattr(paddle, name): name for name in names if name in DTYPES})
    operations = {
        id(original): _checked(original, name)
        for module in OPERATIONS
        for name, original in builtins_of(module)
    }
    for name in [*sys.modules]:
        module = sys.modules[name]
        for held, value in [*vars(module).items()] if may_hold(name) else ():
            if id(value) in operations:
                setattr(module, held, operations[id(value)])
    for owner, methods, is_filled in (
        (paddle.Tensor, _METHODS, False), (paddle.Tensor, _FILLING, True),
        (core.eager, _ENGINE, False), (core.eager, ("tensor_copy",), True),
    ):  # fmt: skip
        for name in methods:
            known_as = f"Tensor.{name}" if owner is paddle.Tensor else name
            setattr(owner, name, _checked(vars(owner)[name], known_as, is_filled=is_filled))


def _checked(function: Any, name: str, *, is_filled: bool = False) -> Any:
    @wraps(function)
    def wrapper(*arguments: Any, **options: Any) -> Any:
        __tracebackhide__ = True  # of pytest
        result = function(*arguments, **options)
        _check(arguments if is_filled else result, name)
        return result

    return wrapper


def _check(result: Any, name: str) -> None:
    """Raise Paddle's error for a kernel that a device lacks."""
    __tracebackhide__ = True
    if isinstance(result, paddle.Tensor):
        dtype = _lacks.get(result.dtype)
        if dtype is not None and result._is_initialized() and result.place.is_custom_place():
            there = ", ".join(each for each in DTYPES if each not in _lacks.values())
            raise RuntimeError(
                f"(NotFound) The kernel with key ({result.place.custom_device_type()}, "
                f"Undefined(AnyLayout), {dtype}) of kernel `{called(name)}` is not registered. "
                f"Selected wrong DataType `{dtype}`. Paddle support following DataTypes: {there}. "
                "(UNIDEV_SIMULATE_LIKE)"
            )
    elif type(result) in (list, tuple):
        for each in result:
            _check(each, name)
