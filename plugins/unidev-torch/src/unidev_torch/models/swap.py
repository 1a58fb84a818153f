"""Exchanging the memory of tensors, which stay the same objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from unidev.errors import UnsupportedOperation
from unidev_torch import accelerator, tensors

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_ALIGNMENT = 16
"""Alignment of the first byte copied from a storage: a multiple of every dtype's size."""

# ``x.data`` and ``x.data = y`` are torch's own way, which Module.to uses where it keeps parameters:
# the tensor gets another storage, shape, strides and device, and keeps its autograd state (requires
# grad, hooks, gradient), version and Python attributes. The assignment never fails half way.


class Part:
    """Tensors that share a storage, usually just one, and their memory.

    A twin has memory only.
    """

    __slots__ = ("memory", "name", "tensors")

    def __init__(self, name: str, tensors: list[torch.Tensor], memory: list[torch.Tensor]) -> None:
        self.name = name
        self.tensors = tensors
        self.memory = memory
        """For each tensor a plain one on its memory, present or future."""


def parts_of(named: Iterable[tuple[str, torch.Tensor]]) -> list[Part]:
    """One part for each storage, so that tensors that share memory still share it after a move."""
    found: dict[object, Part] = {}
    with torch._C.DisableTorchFunctionSubclass():  # the subclass is kept, its memory is plain
        for name, x in named:
            key = _storage_key(x)
            part = found.get(key)
            if part is None:
                found[key] = Part(name, [x], [x.data])
            elif all(x is not other for other in part.tensors):
                part.tensors.append(x)
                part.memory.append(x.data)
    return list(found.values())


def twin_of(part: Part, native: torch.device, *, is_simulated: bool) -> Part:
    """The same values, in new memory on ``native``.

    Raises:
        UnsupportedOperation: torch cannot copy this kind of tensor, or not to that device.
        DeletedTensorError: the tensors' memory is gone.
    """
    first = part.memory[0]
    is_inference = first.is_inference()
    if torch.is_inference_mode_enabled() != is_inference:  # else copies may be inference tensors
        with torch.inference_mode(is_inference):
            return twin_of(part, native, is_simulated=is_simulated)
    is_plain = _is_plain(first)
    try:
        for member in part.memory:
            tensors.check_memory(member)
        if not is_plain:
            tensors.check_movable(first, is_simulated=is_simulated)
    except UnsupportedOperation as error:
        reason = f"{error.operation}: {error.reason}"
        raise UnsupportedOperation(f"placing {part.name!r}", reason, error.link) from None
    is_one = len(part.memory) == 1
    if is_one and ((is_plain and first.is_contiguous()) or not _overlaps_itself(first)):
        memory = [first.to(native, copy=True)]
    else:
        memory = _copied_together(part.memory, native)
    accelerator.keep_until_read(first)
    if not all(map(torch._has_compatible_shallow_copy_type, part.memory, memory)):
        raise UnsupportedOperation(
            f"placing {part.name!r}",
            f"torch cannot move the memory of a tensor from {first.device} to {native}: "
            "build the model there, inside `with torch.device(...)`",
        )
    return Part(part.name, [], memory)


def swap(part: Part, twin: Part) -> None:
    """Exchange the memory of ``part`` and ``twin``."""
    old, new = part.memory, twin.memory
    try:
        _give(part.tensors, new)
        part.memory, twin.memory = new, old
    except BaseException:  # Ctrl-C may come between any two lines
        _give(part.tensors, old)
        part.memory, twin.memory = old, new
        raise


def _give(xs: Sequence[torch.Tensor], memory: Sequence[torch.Tensor]) -> None:
    with torch._C.DisableTorchFunctionSubclass():
        for x, new in zip(xs, memory, strict=True):
            x.data = new


def _storage_key(x: torch.Tensor) -> object:
    """Equal for tensors that share memory, even through several storage objects."""
    if x.layout is not torch.strided or x.is_nested:
        return id(x)
    return (x.device, x.untyped_storage().data_ptr() or -id(x))


def _is_plain(x: torch.Tensor) -> bool:
    is_dense = x.layout is torch.strided and not x.is_nested and not x.is_quantized
    return is_dense and type(x) is torch.Tensor


def _overlaps_itself(x: torch.Tensor) -> bool:
    """Whether elements overlap, as in an expanded tensor, which ``to`` would make dense."""
    return x.layout is torch.strided and 0 in x.stride() and x.numel() > 1


def _copied_together(members: Sequence[torch.Tensor], native: torch.device) -> list[torch.Tensor]:
    """Copies on one storage, laid out relative to each other as ``members`` are.

    Copies no more of the storage than lies between their first and their last byte.
    """
    spans = [tensors.span(x) for x in members]
    begin = min(first for first, _ in spans) // _ALIGNMENT * _ALIGNMENT
    nbytes = max(last for _, last in spans) - begin
    source = torch.empty(0, dtype=torch.uint8, device=members[0].device)
    source.set_(members[0].untyped_storage(), begin, (nbytes,), (1,))
    storage = source.to(native, copy=True).untyped_storage()
    return [_seen_as(x, storage, begin, native) for x in members]


def _seen_as(
    x: torch.Tensor, storage: torch.UntypedStorage, begin: int, native: torch.device
) -> torch.Tensor:
    offset = x.storage_offset() - begin // x.itemsize
    found = torch.empty(0, dtype=x.dtype, device=native)
    found.set_(storage, offset, x.shape, x.stride())
    if x.is_conj():
        found = found.conj()
    return torch._neg_view(found) if x.is_neg() else found
