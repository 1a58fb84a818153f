"""Reductions over MXNet's devices."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import mxnet as mx  # type: ignore[import-untyped]
from mxnet.ndarray.sparse import BaseSparseNDArray  # type: ignore[import-untyped]

from unidev.contract import Collectives
from unidev.errors import UnsupportedOperation
from unidev_mxnet.native_calls import numpy_shapes, reshaped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unidev.contract import Tensor


_OPERATIONS = {"sum": mx.np.add, "min": mx.np.minimum, "max": mx.np.maximum}


class MxnetCollectives(Collectives):
    """Packs of ``mx.np`` or legacy arrays; results have the class of their operands."""

    def pack(self, tensors: Sequence[Tensor]) -> Tensor:
        """``concatenate``."""
        with numpy_shapes():
            flat = [reshaped(x, (-1,)) for x in tensors]
            return _of_class(tensors[0], mx.np.concatenate(flat))

    def unpack(self, flat: Tensor, shapes: Sequence[tuple[int, ...]]) -> Sequence[Tensor]:
        """Slices, which share the memory of ``flat``."""
        legacy, unpacked, start = flat.as_nd_ndarray(), [], 0
        with numpy_shapes():
            for shape in shapes:
                stop = start + math.prod(shape)
                unpacked.append(_of_class(flat, reshaped(legacy._slice(start, stop), shape)))
                start = stop
        return unpacked

    def check_dense(self, tensors: Sequence[Tensor], is_packed: bool) -> None:  # noqa: ARG002
        """Refuses sparse arrays, of which MXNet slices some by rows, and others not."""
        for x in tensors:
            if isinstance(x, BaseSparseNDArray):
                raise UnsupportedOperation(
                    f"this, for a sparse array ({x.stype}),", "use x.tostype('default') first"
                )

    def combine(self, a: Tensor, b: Tensor, op: str) -> Tensor:
        """Writes to ``a``."""
        with numpy_shapes():
            total = a.as_np_ndarray()
            _OPERATIONS[op](total, b.as_np_ndarray(), out=total)
        return a

    def scale(self, flat: Tensor, factor: float) -> Tensor:
        """Writes to ``flat``."""
        with numpy_shapes():
            scaled = flat.as_np_ndarray()
            mx.np.multiply(scaled, factor, out=scaled)
        return flat

    def concatenate(self, tensors: Sequence[Tensor]) -> Tensor:
        """``concatenate``."""
        with numpy_shapes():
            whole = mx.np.concatenate([x.as_np_ndarray() for x in tensors])
        return _of_class(tensors[0], whole)

    def is_writable(self, x: Tensor) -> bool:  # noqa: ARG002
        """All are."""
        return True

    def write(self, targets: Sequence[Tensor], values: Sequence[Tensor]) -> None:
        """``copyto``."""
        with numpy_shapes():
            for target, value in zip(targets, values, strict=True):
                value.copyto(target)


def _of_class(x: Tensor, made: Tensor) -> Tensor:
    return made.as_np_ndarray() if isinstance(x, mx.np.ndarray) else made.as_nd_ndarray()
