"""Reductions over torch's devices."""

from __future__ import annotations

import sys
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING

import torch

from unidev.contract import Collectives
from unidev.errors import UnsupportedDtypeError, UnsupportedOperation

if TYPE_CHECKING:
    from collections.abc import Sequence

_several = torch._C._nn  # torch._utils has them too, around a check
_FEW = 1 << 18
"""Elements for which the allocator has memory at hand."""
_MANY = 1 << 14
"""So many elements of a tensor take longer than the call."""
_MINIMUM_OR_MAXIMUM = {"min": torch.minimum, "max": torch.maximum}


class TorchCollectives(Collectives):
    """Combines in place."""

    wider = MappingProxyType(
        # torch has hardly any kernels for unsigned integers of several bytes
        {**Collectives.wider, "uint16": "int32", "uint32": "int64"}
    )

    def pack(self, tensors: Sequence[torch.Tensor]) -> torch.Tensor:
        """``torch.cat``, by one call where some have to be flattened."""
        if len(tensors) == 1:  # of which the other call gives a view
            return torch.cat([tensors[0].reshape(-1)])
        if all([x.dim() == 1 for x in tensors]):  # noqa: C419  a list is faster here
            return torch.cat(list(tensors))
        packed: torch.Tensor = _several.flatten_dense_tensors(list(tensors))
        return packed

    def unpack(self, flat: torch.Tensor, shapes: Sequence[tuple[int, ...]]) -> list[torch.Tensor]:
        """Views of ``flat``, by one call for all of them."""
        if all([len(shape) == 1 for shape in shapes]):  # noqa: C419
            return list(flat.split_with_sizes([size for (size,) in shapes]))
        parts: list[torch.Tensor] = _several.unflatten_dense_tensors(flat, _of(tuple(shapes)))
        return parts

    def combine(self, a: torch.Tensor, b: torch.Tensor, op: str) -> torch.Tensor:
        """Writes to ``a``.

        Raises:
            UnsupportedDtypeError: torch has no such kernel for 64-bit unsigned integers.
        """
        if a.dtype is torch.uint64:
            if op != "sum":
                raise UnsupportedDtypeError(f"torch has no {op} of uint64 tensors.")
            a.view(torch.int64).add_(b.view(torch.int64))  # the same bits
            return a
        return a.add_(b) if op == "sum" else _MINIMUM_OR_MAXIMUM[op](a, b, out=a)

    def scale(self, flat: torch.Tensor, factor: float) -> torch.Tensor:
        """Writes to ``flat``."""
        return flat.mul_(factor)

    def pack_scaled(
        self, tensors: Sequence[torch.Tensor], factor: float | None, memory: list[torch.Tensor]
    ) -> torch.Tensor:
        """Into memory of an earlier step, once nothing shares it: new pages cost five copies."""
        size = sum([x.numel() for x in tensors])
        if size < _FEW:
            packed = self.pack(tensors)
            return packed if factor is None else packed.mul_(factor)
        flat = next((x for x in memory if _references(x) == _OF_ONE), None)
        if flat is None:
            flat = torch.empty(size, dtype=tensors[0].dtype, device=tensors[0].device)
            memory[:] = [*memory[-1:], flat]  # the caller has the last one's until it gets the next
        parts = self.unpack(flat, [tuple(x.shape) for x in tensors])
        if factor is not None and flat.numel() > _MANY * len(parts):  # in one pass each
            for part, x in zip(parts, tensors, strict=True):
                torch.mul(x, factor, out=part)
            return flat
        torch._foreach_copy_(parts, list(tensors))
        return flat if factor is None else flat.mul_(factor)

    def concatenate(self, tensors: Sequence[torch.Tensor]) -> torch.Tensor:
        """``torch.cat``."""
        return torch.cat(list(tensors))

    def rows(self, x: torch.Tensor, start: int, stop: int) -> torch.Tensor:
        """A view; of a sparse tensor, a copy."""
        if x.layout is torch.sparse_coo:
            return x.narrow_copy(0, start, stop - start)
        return x[start:stop]

    def check_dense(self, tensors: Sequence[torch.Tensor], is_packed: bool) -> None:
        """``torch.cat`` takes those of the layout COO, too."""
        for x in tensors:
            if x.layout is torch.strided and not x.is_nested:
                continue
            if x.is_nested:
                what, way = "nested", "torch.nested.to_padded_tensor(x, 0.0) makes a dense one"
            elif is_packed or x.layout is not torch.sparse_coo:
                what, way = str(x.layout).removeprefix("torch."), "use x.to_dense() first"
            else:
                continue
            raise UnsupportedOperation(f"this, for a {what} tensor,", way)

    def is_writable(self, x: torch.Tensor) -> bool:
        """Not if several elements are one (``expand``), nor outside of its mode if of inference."""
        is_expanded = any(s == 0 and n > 1 for s, n in zip(x.stride(), x.shape, strict=True))
        return not is_expanded and (not x.is_inference() or torch.is_inference_mode_enabled())

    def write(self, targets: Sequence[torch.Tensor], values: Sequence[torch.Tensor]) -> None:
        """One call for all of them."""
        torch._foreach_copy_(list(targets), list(values))


def _references(x: torch.Tensor) -> tuple[int, int]:
    """How many refer to the memory of ``x``, and to the Python object for it."""
    memory = x.untyped_storage()
    return torch._C._storage_Use_Count(memory._cdata), sys.getrefcount(memory)


_OF_ONE = _references(torch.empty(1))


@lru_cache(maxsize=64)
def _of(shapes: tuple[tuple[int, ...], ...]) -> list[torch.Tensor]:
    """Tensors of these shapes, with one element of memory each."""
    return [torch.empty((), device="cpu").expand(shape) for shape in shapes]
