"""An operator's transfers between devices, found in its arguments before it runs.

Shapes and bytes are what CUDA moves, not what simulated devices copy for the CPU's kernels.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.nn.parameter import is_lazy

from unidev.contract import PlannedTransfer
from unidev_torch import tensors
from unidev_torch.accelerator import ACCELERATORS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from unidev.contract import Backend, Device

CPU = torch.device("cpu")

_SIZE_BYTES = 8
"""A number of elements, read back to size the result; counted as one int64."""


class Move(NamedTuple):
    """A planned transfer between torch devices. If they are the same, nothing moves."""

    source: torch.device
    target: torch.device
    nbytes: int
    shape: tuple[int, ...] | None
    is_operand: bool = False
    """Whether it is implicit: torch moves an operand to the other operands' device."""


class Sight:
    """Finds the devices of moves."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def transfers(
        self, moves: Iterable[Move], operation: Callable[[], str]
    ) -> Sequence[PlannedTransfer]:
        """The ``moves`` from one device to another; tensors on ``meta`` have none."""
        found = [(move, *way) for move in moves if (way := self._way(move))]
        name = operation() if found else ""
        mixed = f"{name} of mixed operands"
        return [
            PlannedTransfer(
                mixed if move.is_operand else name, source, target, move.nbytes, move.shape
            )
            for move, source, target in found
        ]

    def _way(self, move: Move) -> tuple[Device, Device] | None:
        source, target = self._device(move.source), self._device(move.target)
        if source is None or target is None or source is target:
            return None
        return source, target

    def _device(self, native: torch.device) -> Device | None:
        found = self._backend.parse_native(native)
        return None if found is None else self._backend.device(*found)


def nbytes_of(x: torch.Tensor, dtype: torch.dtype | None = None) -> int:
    """The size in bytes of the values of ``x`` as ``dtype``."""
    if x.layout is torch.strided:
        return x.numel() * (dtype or x.dtype).itemsize
    return sum(extent.nbytes for extent in tensors.extents(x))


def merged(moves: Iterable[Move]) -> list[Move]:
    """One move per pair of devices; several tensors moved together have no shape."""
    found: dict[tuple[torch.device, torch.device], Move] = {}
    for move in moves:
        way = move.source, move.target
        nbytes = found[way].nbytes if way in found else 0
        shape = None if way in found else move.shape
        found[way] = Move(*way, nbytes + move.nbytes, shape, move.is_operand)
    return list(found.values())


def read_into_python(values: Iterable[torch.Tensor]) -> list[Move]:
    """Moves for tensors that one call reads."""
    return merged(Move(x.device, CPU, nbytes_of(x), tuple(x.shape)) for x in values)


def printed(x: torch.Tensor) -> list[Move]:
    """The printed values, counted once, though torch reads them one by one, some of them twice."""
    options = torch._tensor_str.PRINT_OPTS
    count = x.numel()
    if count > options.threshold:
        count = math.prod(min(length, 2 * options.edgeitems) for length in x.shape)
    nbytes = count * x.dtype.itemsize if x.layout is torch.strided else nbytes_of(x)
    return [Move(x.device, CPU, nbytes, tuple(x.shape))] if nbytes else []


# -- operators ------------------------------------------------------------------------------------

# Each function receives the operator's arguments.


def _to_copy(x: torch.Tensor, **options: Any) -> Sequence[Move]:
    device = options.get("device")
    if device is None or device == x.device or is_lazy(x):
        return ()
    return (Move(x.device, device, nbytes_of(x, options.get("dtype")), tuple(x.shape)),)


def _copy(target: torch.Tensor, source: torch.Tensor, *_: object, **__: object) -> Sequence[Move]:
    if target.device == source.device:
        return ()
    # CUDA converts and broadcasts before it copies (ATen/native/cuda/Copy.cu).
    nbytes = nbytes_of(target) if target.layout is torch.strided else nbytes_of(source)
    return (Move(source.device, target.device, nbytes, tuple(source.shape)),)


def _foreach_copy(
    targets: Sequence[torch.Tensor], sources: Sequence[torch.Tensor], *_: object, **__: object
) -> Sequence[Move]:
    pairs = zip(targets, sources, strict=False)  # of different lengths: torch raises the error
    return merged(move for pair in pairs for move in _copy(*pair))


def _made_from_python(x: torch.Tensor) -> Sequence[Move]:
    """``lift_fresh`` is the only visible operator of ``torch.tensor(data, device=...)``."""
    return (Move(CPU, x.device, nbytes_of(x), tuple(x.shape)),)


def _size(x: torch.Tensor, *_: object, **__: object) -> Sequence[Move]:
    return (Move(x.device, CPU, _SIZE_BYTES, ()),)


def _size_of_repeats(
    repeats: torch.Tensor, *, output_size: int | None = None, **_: object
) -> Sequence[Move]:
    return _size(repeats) if output_size is None else ()


def _answer(x: torch.Tensor, *_: object, **__: object) -> Sequence[Move]:
    return (Move(x.device, CPU, 1, ()),)


def _equal(x: torch.Tensor, y: torch.Tensor) -> Sequence[Move]:
    is_known = x.shape != y.shape or x.numel() == 0 or x is y
    return () if is_known else _answer(x)


def _number_of_another_device(x: torch.Tensor, *rest: Any) -> Sequence[Move]:
    """``x`` is filled with a zero-dimensional tensor, converted to a number if necessary.

    A number on the CPU travels with the call, as Python's numbers do.
    """
    value = rest[-1]
    return () if value.device == x.device else (_scalar(value),)


def _number(*operands: Any) -> Sequence[Move]:
    return (_scalar(operands[-1]),)


def _where(*operands: torch.Tensor, **_: object) -> Sequence[Move]:
    """A number on the CPU is moved to the other operands first, unlike those of other operators."""
    device = next((each.device for each in operands if each.device != CPU), CPU)
    condition, *values = operands
    dtypes = (condition.dtype, *(torch.result_type(*values),) * 2)
    return [
        Move(each.device, device, dtype.itemsize, ())
        for each, dtype in zip(operands, dtypes, strict=True)
        if each.dim() == 0 and each.device != device
    ]


def _index(
    x: torch.Tensor, indices: Sequence[torch.Tensor | None], *_: object, **__: object
) -> Sequence[Move]:
    found = [index for index in indices if index is not None]
    carried = merged(_carried_index(index, x) for index in found)
    masks = [index for index in found if _is_mask(index) and index.device == x.device]
    return [*carried, *(size for mask in masks for size in _size(mask))]


def _index_put(
    x: torch.Tensor, indices: Sequence[torch.Tensor | None], values: torch.Tensor, *_: object
) -> Sequence[Move]:
    has_masks_only = all(index is None or _is_mask(index) for index in indices)
    # On CUDA, the number in `x[mask] = 0` stays on the CPU: it fills, and counts nothing. For other
    # devices torch moves it first (python_variable_indexing.cpp); simulated ones stand in for CUDA.
    is_filling = values.numel() == 1 and (values.device == CPU or x.device.type not in ACCELERATORS)
    return () if has_masks_only and is_filling else _index(x, indices)


def _carried_index(index: torch.Tensor, x: torch.Tensor) -> Move:
    target = x.device if index.device == CPU else index.device  # otherwise torch refuses it
    if index.device == target or not _is_mask(index):
        return Move(index.device, target, nbytes_of(index), tuple(index.shape), True)
    count = int(index.count_nonzero())  # a mask is moved as the positions of its true elements
    shape = (count,) if index.dim() == 1 else None
    return Move(index.device, target, count * index.dim() * torch.int64.itemsize, shape, True)


def _is_mask(index: torch.Tensor) -> bool:
    return index.dtype is torch.bool or index.dtype is torch.uint8


def _scalar(x: torch.Tensor) -> Move:
    return Move(x.device, CPU, x.dtype.itemsize, ())


def _readers() -> Mapping[Any, Callable[..., Sequence[Move]]]:
    aten = torch.ops.aten
    read: dict[Callable[..., Sequence[Move]], tuple[Any, ...]] = {
        _to_copy: (aten._to_copy.default,),
        _copy: (aten.copy_.default, aten.copy.default),
        _foreach_copy: (aten._foreach_copy_.default, aten._foreach_copy.default),
        _made_from_python: (aten.lift_fresh.default,),
        _size: (
            aten.nonzero.default, aten.nonzero.out, aten.masked_select.default,
            aten.masked_select.out, aten._unique.default, aten._unique2.default,
            aten.unique_dim.default, aten.unique_consecutive.default,
            aten.unique_dim_consecutive.default, aten.bincount.default,
        ),
        _size_of_repeats: (aten.repeat_interleave.Tensor,),
        _answer: (aten.allclose.default, aten._linalg_check_errors.default),
        _equal: (aten.equal.default,),
        _number_of_another_device: (
            aten.fill_.Tensor, aten.fill.Tensor, aten.masked_fill_.Tensor, aten.masked_fill.Tensor,
        ),
        _number: (
            aten._local_scalar_dense.default, aten.index_fill_.int_Tensor,
            aten.index_fill.int_Tensor,
        ),
        _where: (aten.where.self, aten.where.self_out),
        _index: (aten.index.Tensor, aten.index.Tensor_out, aten._unsafe_index.Tensor),
        _index_put: (
            aten.index_put_.default, aten.index_put.default, aten._index_put_impl_.default,
            aten._unsafe_index_put.default,
        ),
    }  # fmt: skip
    return {operator: reader for reader, operators in read.items() for operator in operators}


class Readers(dict[Any, "Callable[..., Sequence[Move]] | None"]):
    """Maps an operator to the function that finds its moves; None if it moves nothing."""

    def __missing__(self, operator: Any) -> Callable[..., Sequence[Move]] | None:
        reader = self[operator] = compound if _is_compound(operator) else None
        return reader


def compound(*_: object, **__: object) -> Sequence[Move]:
    """Marks an operator made of other operators, which are seen when they are called."""
    return ()


def _is_compound(operator: Any) -> bool:
    # Torch shows these to a dispatch mode in inference mode only; elsewhere it shows their parts.
    # It cannot decompose its primitives (prim::device).
    if not isinstance(operator, torch._ops.OpOverload) or operator.namespace == "prim":
        return False
    is_composite = operator.has_kernel_for_dispatch_key(_COMPOSITE)
    return is_composite and not any(map(operator.has_kernel_for_dispatch_key, _DEVICES))


_COMPOSITE = torch._C.DispatchKey.CompositeImplicitAutograd
_DEVICES = [
    getattr(torch._C.DispatchKey, name)
    for name in ("CPU", "CUDA", "HPU", "MPS", "MTIA", "XPU", "PrivateUse1")
]
"""Dispatch keys for which torch uses an operator's own kernel, if it has one."""

readers = Readers(_readers())
