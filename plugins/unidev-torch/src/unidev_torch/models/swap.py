"""Exchanging the memory of tensors, which stay the same objects."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import torch

from unidev.errors import UnsupportedOperation
from unidev_torch import accelerator, tensors

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    _Member = tuple[str, torch.Tensor, torch.Tensor]
    """A name, a tensor, and a plain one on its memory."""

_is_inference_mode = torch.is_inference_mode_enabled
_TOGETHER = 32
"""How many tensors with storages of their own make a part: each part takes several calls."""
_ALIGNMENT = 16
"""Alignment of the first byte copied from a storage: a multiple of every dtype's size."""

# ``x.data`` and ``x.data = y`` are torch's own way, which Module.to uses where it keeps parameters:
# the tensor gets another storage, shape, strides and device, and keeps its autograd state (requires
# grad, hooks, gradient), version and Python attributes. The assignment never fails half way.


class Part:
    """Tensors on one device that move together, and their memory.

    Either all that share a storage, or simple ones with one each. A twin has memory only.
    """

    __slots__ = ("is_shared", "memory", "names", "tensors")

    def __init__(
        self,
        names: Sequence[str],
        tensors: Sequence[torch.Tensor],
        memory: Sequence[torch.Tensor],
        *,
        is_shared: bool,
    ) -> None:
        self.names = names
        self.tensors = tensors
        self.memory = memory
        """For each tensor a plain one on its memory, present or future."""
        self.is_shared = is_shared
        """Whether they share a storage, or are one tensor that is not simple."""


def parts_of(named: Iterable[tuple[str, torch.Tensor]]) -> list[Part]:
    """Tensors that share a storage in one part, so that they still share one after a move."""
    shared: dict[object, dict[int, _Member]] = {}
    alone: dict[torch.device, list[_Member]] = {}
    with torch._C.DisableTorchFunctionSubclass():  # the subclass is kept, its memory is plain
        members = [(name, x, x.data) for name, x in named]
        addresses = [_address(memory) for _, _, memory in members]
        counts = Counter(addresses)
        for address, member in zip(addresses, members, strict=True):
            _, x, memory = member
            if address and counts[address] == 1 and _is_simple(memory):
                alone.setdefault(memory.device, []).append(member)
            else:  # the same address may be on two devices
                key = (memory.device, address) if address else id(x)
                shared.setdefault(key, {})[id(x)] = member
    parts = [Part(*zip(*found.values(), strict=True), is_shared=True) for found in shared.values()]
    for some in alone.values():
        for start in range(0, len(some), _TOGETHER):
            together = some[start : start + _TOGETHER]
            parts.append(Part(*zip(*together, strict=True), is_shared=False))
    return parts


def twin_of(part: Part, native: torch.device, *, is_simulated: bool) -> Part:
    """The same values, in new memory on ``native``.

    Raises:
        UnsupportedOperation: torch cannot copy this kind of tensor, or not to that device.
        DeletedTensorError: the tensors' memory is gone.
    """
    is_inference = part.memory[0].is_inference()
    if _is_inference_mode() is not is_inference:  # else copies may be inference tensors
        with torch.inference_mode(is_inference):
            return twin_of(part, native, is_simulated=is_simulated)
    if part.is_shared:
        memory = _copied(part, native, is_simulated)
    else:
        # A copy, if the device is another one; asking for a copy takes half as long again.
        memory = [x.to(native) for x in part.memory]
        if memory[0] is part.memory[0]:
            memory = [x.clone() for x in part.memory]
    if is_simulated or part.memory[0].device.type in accelerator.STREAM_ORDERED:
        for x in part.memory:
            accelerator.keep_until_read(x, is_simulated=is_simulated)
    # The first decides for all: those with storages of their own are alike.
    old, new = part.memory[0], memory[0]
    if not torch._has_compatible_shallow_copy_type(old, new):
        raise UnsupportedOperation(
            f"placing {part.names[0]!r}",
            f"torch cannot move the memory of a tensor from {old.device} to {native}: "
            "build the model there, inside `with torch.device(...)`",
        )
    return Part(part.names, (), memory, is_shared=part.is_shared)


def _copied(part: Part, native: torch.device, is_simulated: bool) -> list[torch.Tensor]:
    first = part.memory[0]
    try:
        for member in part.memory:
            tensors.check_memory(member)
        if not _is_plain(first):
            tensors.check_movable(first, is_simulated=is_simulated)
    except UnsupportedOperation as error:
        reason = f"{error.operation}: {error.reason}"
        raise UnsupportedOperation(f"placing {part.names[0]!r}", reason, error.link) from None
    if len(part.memory) == 1 and not _overlaps_itself(first):
        return [first.to(native, copy=True)]
    return _copied_together(part.memory, native)


def swap(part: Part, twin: Part) -> None:
    """Exchange the memory of ``part`` and ``twin``.

    A part lives as long as a ``DataParallel``. Since it was made, ``place`` or the user may have
    given its tensors other memory, and the memory of then would come back with its old values.
    """
    with torch._C.DisableTorchFunctionSubclass():
        old, new = [x.data for x in part.tensors], twin.memory
    try:
        _give(part.tensors, new)
        part.memory, twin.memory = new, old
    except BaseException:  # Ctrl-C may come between any two lines
        _give(part.tensors, old)
        part.memory, twin.memory = old, new
        raise


def _give(xs: Sequence[torch.Tensor], memory: Sequence[torch.Tensor]) -> None:
    for x, new in zip(xs, memory, strict=True):
        if type(x) is torch.nn.Parameter or type(x) is torch.Tensor:
            x.data = new
        else:
            with torch._C.DisableTorchFunctionSubclass():
                x.data = new


def _address(x: torch.Tensor) -> int:
    """Where the storage of ``x`` begins, for all storage objects that share it; 0: unknown."""
    if x.layout is not torch.strided or x.is_nested:
        return 0
    return x.untyped_storage().data_ptr()


def _is_simple(x: torch.Tensor) -> bool:
    """Whether ``x``, which has an address, is plain, dense, and all that its storage holds."""
    is_plain = type(x) is torch.Tensor and not x.is_quantized and not x.is_inference()
    return is_plain and tensors.is_covered(x)


def _is_plain(x: torch.Tensor) -> bool:
    is_dense = x.layout is torch.strided and not x.is_nested and not x.is_quantized
    return is_dense and type(x) is torch.Tensor


def _overlaps_itself(x: torch.Tensor) -> bool:
    """Whether elements overlap, as in an expanded tensor, which ``to`` would make dense."""
    return x.layout is torch.strided and 0 in x.stride() and x.numel() > 1


def _copied_together(members: Sequence[torch.Tensor], native: torch.device) -> list[torch.Tensor]:
    """Copies on one storage, laid out as ``members`` are, from their first byte to their last."""
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
