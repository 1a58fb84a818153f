"""Reductions over Paddle's devices."""

from __future__ import annotations

import itertools
import math
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from unidev.contract import Collectives
from unidev_paddle.framework import in_static_graph, not_dense
from unidev_paddle.importing import import_paddle

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unidev.contract import Tensor


paddle: Any = import_paddle()
operations: Any = paddle._C_ops

_OPERATIONS = {"sum": operations.add, "min": operations.minimum, "max": operations.maximum}


class PaddleCollectives(Collectives):
    """Results are on the device of their operands, as in all of Paddle."""

    wider = MappingProxyType(
        {**Collectives.wider, "int8": "int32", "uint8": "int32", "int16": "int32"}
    )

    def pack(self, tensors: Sequence[Tensor]) -> Tensor:
        """``concat``, which the simulator lacks: Paddle's fallback takes ten times as long."""
        self.check_dense(tensors, True)
        place = tensors[0].place
        if self._is_simulated(place):  # bfloat16 travels as uint16, both ways
            flat = np.concatenate([x.numpy().reshape(-1) for x in tensors])
            made = paddle.to_tensor(flat, place=place)  # of float8 as int8
            return made if made.dtype == tensors[0].dtype else made.view(tensors[0].dtype)
        return operations.concat([x if x.ndim == 1 else _flat(x) for x in tensors], 0)

    def unpack(self, flat: Tensor, shapes: Sequence[tuple[int, ...]]) -> Sequence[Tensor]:
        """``split``, or copies of slices where the simulator lacks it.

        Not the slices themselves: ``assign_out_`` writes to the start of their common memory.
        """
        sizes = [math.prod(shape) for shape in shapes]
        if self._is_simulated(flat.place):
            ends = zip(sizes, itertools.accumulate(sizes), strict=True)
            parts = [operations.view_slice(flat, end - size, end).clone() for size, end in ends]
        else:
            parts = operations.split(flat, sizes, 0)
        return [
            part if len(shape) == 1 else operations.reshape(part, list(shape))
            for part, shape in zip(parts, shapes, strict=True)
        ]

    def rows(self, x: Tensor, start: int, stop: int) -> Tensor:
        """A slice, which is a view."""
        self.check_dense([x], False)
        return x[start:stop]

    def combine(self, a: Tensor, b: Tensor, op: str) -> Tensor:
        """``add``, ``minimum``, ``maximum``."""
        return _OPERATIONS[op](a, b)

    def scale(self, flat: Tensor, factor: float) -> Tensor:
        """Writes to ``flat``, except on a simulated GPU, where it would get other memory."""
        if self._is_simulated(flat.place):
            return operations.scale(flat, factor, 0.0, True)
        return operations.scale_(flat, factor, 0.0, True)

    def concatenate(self, tensors: Sequence[Tensor]) -> Tensor:
        """``concat`` without empty tensors.

        On a simulated GPU an empty slice ends the process, and of empty tensors alone the result
        is on the CPU (3.3.1).
        """
        self.check_dense(tensors, True)
        filled = [x for x in tensors if x.size]
        if filled:
            return operations.concat(filled, 0)
        first = tensors[0]
        shape = (sum(x.shape[0] for x in tensors), *first.shape[1:])
        return self.backend.empty(shape, first.dtype, self.backend.device_of(first))

    def check_dense(self, tensors: Sequence[Tensor], is_packed: bool) -> None:  # noqa: ARG002
        """Before Paddle's operations for dense tensors, in which a sparse one ends the process."""
        for x in tensors:
            if not isinstance(x, paddle.Tensor):
                raise in_static_graph("computing on a tensor's device")
            if not x.is_dense():
                raise not_dense(x)

    def is_writable(self, x: Tensor) -> bool:
        """Not if several elements are one (``as_strided``)."""
        return not any(s == 0 and n > 1 for s, n in zip(x.strides, x.shape, strict=True))

    def write(self, targets: Sequence[Tensor], values: Sequence[Tensor]) -> None:
        """``copy_``: ``assign_out_`` writes a view to the start of the memory around it."""
        for target, value in zip(targets, values, strict=True):
            target.copy_(value, True)
            target._bump_inplace_version()  # a backward that needs the old values then fails

    def _is_simulated(self, place: Any) -> bool:
        return self.backend.simulated_count > 0 and bool(place.is_custom_place())


def _flat(x: Tensor) -> Tensor:
    return operations.reshape(x, [-1])
