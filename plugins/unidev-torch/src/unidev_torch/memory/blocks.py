"""The storages of fake tensors on one device: when each came and went, and what it was for."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException
from torch.utils import _pytree
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.weak import WeakIdKeyDictionary

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from unidev.contract import Device

KINDS = ("parameters", "gradients", "optimizer state", "activations", "rest")
PARAMETERS, GRADIENTS, OPTIMIZER_STATE, ACTIVATIONS, REST = KINDS

_COMPOSED = {
    "aten::_safe_softmax",
    "aten::_unsafe_masked_index",
    "aten::_unsafe_masked_index_put_accumulate",
    "aten::binary_cross_entropy_with_logits",
    "aten::dist",
    "aten::isinf",
    "aten::ldexp.Tensor",
    "aten::masked_scatter_backward",
    "aten::mvlgamma",
    "aten::soft_margin_loss_backward",
}
"""Operations that torch composes of others on each device, which take memory and return it.

On fake tensors each is one operation, and that memory would not be seen: for the softmax of
attention more than its result. Not all composed operations: ``abs`` ends the process there (2.13).
"""
_QUESTIONS = {torch.ops.aten.isnan, torch.ops.aten.isinf}
_OF_ANSWERS = {
    torch.ops.aten.any, torch.ops.aten.logical_or, torch.ops.aten.bitwise_or, torch.ops.aten.view,
    torch.ops.aten._to_copy, torch.ops.aten.sum, torch.ops.aten.stack,
}  # fmt: skip
"""What is made of the answers before a program reads one."""
_BLOCK = 512
_LARGE, _SEGMENT, _LEAST_REST = 10 << 20, 2 << 20, 1 << 20


@dataclass
class _Block:
    """One storage."""

    nbytes: int
    kind: str = REST
    is_given: bool = False
    """Whether it was there before the step: then autograd's keeping it costs nothing."""


class Blocks(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records the storages that operations make while it is entered, and their ends.

    Kinds are added up at the end: what a storage was for is known only some time after it was made.
    """

    def __init__(self, device: Device) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._device: torch.device = device.native
        self._is_cudas = self._device.type == "cuda"
        self._has_segments = self._is_cudas and not device.is_simulated
        self._alive: dict[int, tuple[_Block, weakref.ref[Any]]] = {}
        """By the address of torch's object for the storage."""
        self._events: list[tuple[_Block, int]] = []
        """Each block twice, when it came and when it went, with 1 and -1."""
        self._false = WeakIdKeyDictionary()
        """Tensors that a program asks whether a value is infinite or none: it is 1."""

    # -- recording ---------------------------------------------------------------------------------

    def begin(self, parameters: Iterable[torch.Tensor], given: Iterable[torch.Tensor]) -> None:
        """Record what is there before the first step."""
        self._note(parameters, PARAMETERS)
        for x in given:
            block = self._block(x)
            if block is not None:
                block.is_given = True

    def note_gradient(self, parameter: torch.Tensor) -> None:
        """Record that ``parameter`` has got its gradient."""
        if parameter.grad is not None:
            self._note([parameter.grad], GRADIENTS)

    def note_activation(self, x: torch.Tensor) -> torch.Tensor:
        """Record that autograd keeps ``x`` for the backward pass; returns ``x``."""
        block = self._block(x)
        if block is not None and block.kind == REST and not block.is_given:
            block.kind = ACTIVATIONS
        return x

    def end_step(self, parameters: Iterable[torch.Tensor], optimizers: Iterable[Any]) -> None:
        """Record what parameters and optimizers hold after a step."""
        for x in parameters:
            self.note_gradient(x)
        for optimizer in optimizers:
            held = _pytree.tree_leaves([*optimizer.state.values()])
            self._note([x for x in held if isinstance(x, torch.Tensor)], OPTIMIZER_STATE)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        try:
            found = self._called(func, args, kwargs or {})
        except DataDependentOutputException:
            if func is not torch.ops.aten._local_scalar_dense.default:
                raise
            return self._value(args[0])
        for x in _pytree.tree_leaves(found):
            if isinstance(x, torch.Tensor):
                self._block(x)
        if self._is_false(func, args):
            self._false[found] = True
        elif func is torch.ops.aten._amp_foreach_non_finite_check_and_unscale_.default:
            self._false[args[1]] = True
        return found

    def _called(self, func: Any, args: Any, kwargs: Any) -> Any:
        """``func``, or the operations of which torch composes it."""
        if func.name() not in _COMPOSED:
            return func(*args, **kwargs)
        with self:
            return func._op_dk(torch._C.DispatchKey.CompositeExplicitAutograd, *args, **kwargs)

    # -- the result --------------------------------------------------------------------------------

    def at_peak(self) -> Mapping[str, int]:
        """The bytes of each kind when most were in use."""
        used = peak = end = 0
        for position, (block, sign) in enumerate(self._events):
            used += sign * block.nbytes
            if used > peak:
                peak, end = used, position + 1
        found = dict.fromkeys(KINDS, 0)
        for block, sign in self._events[:end]:
            found[block.kind] += sign * block.nbytes
        return found

    # -- one storage -------------------------------------------------------------------------------

    def _note(self, tensors: Iterable[torch.Tensor], kind: str) -> None:
        for x in tensors:
            block = self._block(x)
            if block is not None:
                block.kind = kind

    def _block(self, x: torch.Tensor) -> _Block | None:
        """The block of the memory of ``x``, recorded if it is new; None if it is elsewhere."""
        if x.device != self._device or x.layout is not torch.strided:
            return None
        storage = x.untyped_storage()
        key = storage._cdata
        if key in self._alive:
            return self._alive[key][0]
        block = _Block(self._taken(storage.nbytes()))
        self._alive[key] = block, weakref.ref(storage, lambda _: self._end(key, block))
        self._events.append((block, 1))
        return block

    def _taken(self, nbytes: int) -> int:
        """What torch's allocator takes for a storage, as its statistics count it.

        CUDA's rounds up to 512 bytes. From 10 MiB on it takes a segment of whole 2 MiB, and splits
        that only where more than 1 MiB remains (c10/cuda/CUDACachingAllocator.cpp, seen in 2.14.1;
        not with ``expandable_segments``). Simulated GPUs have no segments.
        """
        if not self._is_cudas:
            return nbytes
        block = _up_to(nbytes, _BLOCK)
        segment = _up_to(block, _SEGMENT)
        is_whole = self._has_segments and block >= _LARGE and segment - block <= _LEAST_REST
        return segment if is_whole else block

    def _end(self, key: int, block: _Block) -> None:
        del self._alive[key]
        self._events.append((block, -1))

    def _is_false(self, func: Any, args: Any) -> bool:
        """Whether an operation asks for infinite values, or is made of such answers only."""
        if func.overloadpacket in _OF_ANSWERS:
            tensors = [x for x in _pytree.tree_leaves(args) if isinstance(x, torch.Tensor)]
            return all(x in self._false for x in tensors)
        is_itself = func is torch.ops.aten.ne.Tensor and args[0] is args[1]  # x != x: isnan
        return is_itself or func.overloadpacket in _QUESTIONS

    def _value(self, x: torch.Tensor) -> bool | int | float:
        """What a program reads: 1, a number by which it can divide, or that nothing is infinite."""
        value = 0 if x in self._false else 1
        if x.dtype is torch.bool:
            return bool(value)
        return float(value) if x.is_floating_point() else value


def _up_to(number: int, unit: int) -> int:
    return -(-number // unit) * unit
