"""How each of Paddle's operations uses its arguments, and hence what it moves.

Operations are declared in paddle/phi/ops/yaml: inputs come first, then attributes; an
attribute may be given as a tensor, which Paddle then reads on the host.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from unidev_paddle.framework import paddle
from unidev_paddle.tracer.transfers import NOTHING, Operands, tensors_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from unidev_paddle.tracer.transfers import Sight, Transfers

Tensor: Any = paddle.Tensor

_INPUTS = {
    **dict.fromkeys((
        "arange", "empty", "eye", "full", "full_int_array", "gaussian", "linspace", "logspace",
        "randint", "randperm", "range_v2", "truncated_gaussian_random", "uniform",
    ), 0),
    **dict.fromkeys((
        "affine_grid", "argmax", "argmin", "clip", "concat", "crop", "cumsum", "expand", "fill",
        "frobenius_norm", "full_", "full_like", "full_with_tensor", "increment", "max", "mean",
        "median", "min", "multinomial", "nanmedian", "nansum", "one_hot", "pad", "pad3d", "pow",
        "prod", "repeat_interleave", "reshape", "reverse", "roll", "scale", "sequence_mask",
        "slice", "split", "split_with_num", "squeeze", "strided_slice", "sum", "tile", "topk",
        "uniform_inplace", "unsqueeze", "view_shape",
    ), 1),
    **dict.fromkeys(("allclose", "bincount", "dropout", "gather", "isclose", "lstsq"), 2),
}  # fmt: skip
"""The number of inputs, for operations that accept a tensor as their first attribute."""

_ATTRIBUTES = ("atol", "axis", "dim", "rtol", "shifts")
"""Keywords that may be tensors and are attributes, in functions that pass on their keywords."""

_BY_FIRST = ("logical_and", "logical_or", "logical_xor")
"""Operations that run on the device of their first input alone (``backend : x``)."""

_INTERPOLATED = ("bicubic", "bilinear", "linear", "nearest", "trilinear")
_STAYS = {
    **dict.fromkeys(("adam_", "adamw_", "merged_adam_", "fused_adam_"), (6, 7, 9)),
    "lamb_": (5, 6, 8),
    "dropout": (1,),
    **dict.fromkeys((f"{name}_interp" for name in _INTERPOLATED), (1, 2, 3)),
}
"""Inputs that kernels read where they are (ALL_BACKEND): powers of beta, sizes, seeds."""


def by_operation(name: str, sight: Sight) -> Callable[..., Transfers]:
    """Returns a function of the arguments of ``paddle._C_ops.name`` that finds what it moves."""
    inputs = _INPUTS.get(name, _INPUTS.get(name.rstrip("_")))
    stays = _STAYS.get(name, ())
    is_by_first = name.rstrip("_") in _BY_FIRST

    def transfers(*arguments: Any, **options: Any) -> Transfers:
        if inputs is None and _is_at_one_place(arguments, options):
            return NOTHING
        operands = _operands(arguments, options, inputs, stays)
        if is_by_first:
            del operands.first[1:]
        return sight.compute(operands, name)

    return transfers


def by_operator(name: str, sight: Sight) -> Callable[..., Transfers]:
    """Transfers of ``Tensor.__add__`` and the like, which are separate C functions."""
    operation = name.removeprefix("r") if name in _REFLECTED else name

    def transfers(*arguments: Any) -> Transfers:
        if type(arguments[-1]) is not np.ndarray and _is_at_one_place(arguments, {}):
            return NOTHING
        operands = Operands()
        for x in arguments:
            operands.add(x)
        return sight.compute(operands, operation)

    return transfers


_REFLECTED = {
    f"r{name}"
    for name in ("add", "sub", "mul", "div", "truediv", "floordiv", "mod", "pow", "matmul")
}


def by_index(name: str, sight: Sight) -> Callable[..., Transfers]:
    """Transfers of ``_getitem_dygraph`` and ``_setitem_dygraph``, behind ``Tensor.name``."""

    def transfers(x: Any, item: Any, *value: Any) -> Transfers:
        if not isinstance(x, Tensor):
            return NOTHING
        parts = item if isinstance(item, tuple) else (item,)
        numbers = [part for part in parts if _is_number(part)]
        indices = [part for part in parts if not isinstance(part, slice) and not _is_number(part)]
        operands = Operands()
        for each in (x, indices, *value):
            operands.add(each)
        operands.numbers += numbers
        for part in parts:
            if isinstance(part, slice):
                operands.numbers += tensors_in([part.start, part.stop, part.step])
        return sight.compute(operands, name.strip("_"), f"Tensor.{name}")

    return transfers


def _is_number(index: Any) -> bool:
    # ParseIndexingSlice in paddle/fluid/pybind/slice_utils.h reads it on the host, as an int is.
    return isinstance(index, Tensor) and index.ndim == 0 and index.dtype != paddle.bool


def _is_at_one_place(arguments: tuple[Any, ...], options: dict[str, Any]) -> bool:
    """A fast test: no list, all tensors on one device, none as an attribute."""
    if options:
        return False
    here = None
    is_input = True
    for x in arguments:
        if isinstance(x, Tensor):
            if not is_input:
                return False
            try:
                place = hash(x.place)
            except RuntimeError:  # it has no memory (yet)
                return False
            if here is None:
                here = place
            elif place != here:
                return False
        elif type(x) is list or type(x) is tuple:
            return False
        elif x is not None:
            is_input = False
    return True


def _operands(
    arguments: tuple[Any, ...], options: dict[str, Any], inputs: int | None, stays: tuple[int, ...]
) -> Operands:
    operands = Operands()
    is_input = True
    for position, x in enumerate(arguments):
        if position in stays:
            continue
        if inputs is not None:
            is_input = position < inputs
        elif not _may_be_input(x):
            is_input = False
        if is_input:
            operands.add(x)
        else:
            operands.numbers += [x] if isinstance(x, Tensor) else _numbers_in(x)
    # Keywords come in the order of the call: `paddle.logical_and(y=b, x=a)`.
    for name, x in sorted(options.items(), key=lambda option: option[0] not in ("x", "input")):
        if name in _ATTRIBUTES:
            operands.numbers += tensors_in([x])
        elif name != "out":  # `out` is not read, and takes the memory of the result
            operands.add(x)
    operands.arrays.clear()  # it takes none
    return operands


def _may_be_input(x: Any) -> bool:
    return x is None or isinstance(x, Tensor) or (type(x) in (list, tuple) and not _numbers(x))


def _numbers(several: Any) -> bool:
    return bool(several) and not isinstance(several[0], Tensor) and several[0] is not None


def _numbers_in(x: Any) -> list[Any]:
    return tensors_in(x) if type(x) in (list, tuple) else []
