"""The modes of ``TorchTracer``: one receives operators, the other the user's calls."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import torch
from torch._C._dynamo import eval_frame
from torch.overrides import TorchFunctionMode
from torch.utils import _python_dispatch as dispatching
from torch.utils._python_dispatch import TorchDispatchMode

from unidev_torch.tracer.names import call_name, operation_name
from unidev_torch.tracer.transfers import compound, printed, read_into_python, readers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from unidev.contract import Recording
    from unidev_torch.tracer.transfers import Move, Sight

_PRINTING = frozenset({torch.Tensor.__repr__, torch.Tensor.__format__})
_FROM_DATA = {torch.tensor: 0, torch.as_tensor: 0, torch.asarray: 0, torch.Tensor.new_tensor: 1}
"""The position of the data among the arguments. No operator shows that its tensors are read."""
_SPECIAL = frozenset({*_PRINTING, *_FROM_DATA})


class Operators(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's __init_subclass__
    """Receives every operator of this thread, below autograd."""

    supports_higher_order_operators = True

    def __init__(self, recording: Recording, sight: Sight) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._recording = recording
        self._sight = sight

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Torch's default imports the whole compiler for the first operator (1.2 s in 2.13)."""
        return False

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Functions are compiled as usual; their transfers are reported when they run."""
        return True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run ``func``."""
        if readers[func] is None and not types:
            return func(*args, **kwargs) if kwargs else func(*args)
        return self._look(func, types, args, kwargs or {})

    def _look(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if any(map(dispatching.is_traceable_wrapper_subclass_type, types)):
            return NotImplemented  # it calls operators on the inner tensors, which are seen
        read = readers[func]
        if read is compound:
            dispatching._push_mode(self)
            try:
                return func.decompose(*args, **kwargs)
            finally:
                dispatching._pop_mode()
        if read is None or any(cls.__name__ in _VALUELESS for cls in types):
            return func(*args, **kwargs)
        if not self._recording.is_on:
            return func(*args, **kwargs)
        moves = read(*args, **kwargs)
        transfers = self._sight.transfers(moves, lambda: operation_name(func, _CALLED))
        return self._recording.call(transfers, func, *args, **kwargs)


_VALUELESS = frozenset({"FakeTensor", "FunctionalTensor"})


class Calls(TorchFunctionMode):
    """Receives every public torch function that a user calls, not the calls it makes itself."""

    def __init__(self, recording: Recording, sight: Sight) -> None:
        super().__init__()
        self._recording = recording
        self._sight = sight

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call ``func``; ``operation_name`` reads its name from this frame."""
        if func in _SPECIAL and not torch.compiler.is_compiling():
            return self._call(func, args, kwargs or {})
        return func(*args, **kwargs) if kwargs else func(*args)

    def _call(self, func: Any, args: Any, kwargs: Any) -> Any:
        if not self._recording.is_on:
            return func(*args, **kwargs)
        moves = _moves(func, args, kwargs)
        transfers = self._sight.transfers(moves, lambda: call_name(func))
        run = self._recording.muted if func in _PRINTING else self._unmuted
        return self._recording.call(transfers, run, func, *args, **kwargs)

    def _unmuted(self, func: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Read data may then go to a device: an operator does that, and is reported."""
        was_muted, self._recording.is_muted = self._recording.is_muted, False
        try:
            return func(*args, **kwargs)
        finally:
            self._recording.is_muted = was_muted


def _moves(func: Any, args: Any, kwargs: Any) -> Sequence[Move]:
    if func in _PRINTING:
        return () if kwargs.get("tensor_contents") else printed(args[0])
    position = _FROM_DATA[func]
    data = args[position] if len(args) > position else kwargs.get("data", kwargs.get("obj"))
    return read_into_python(_tensors_in(data))


_CALLED = Calls.__torch_function__.__code__

# Else torch would compile these frames when code that it compiles in parts calls an operator.
_SKIPPED = eval_frame._FrameExecStrategy(eval_frame._FrameAction.SKIP, eval_frame._FrameAction.SKIP)
for _mode in (Calls.__torch_function__, inspect.unwrap(Operators.__torch_dispatch__)):
    eval_frame.set_code_exec_strategy(_mode.__code__, _SKIPPED)


def _tensors_in(data: Any, depth: int = 128) -> Iterator[torch.Tensor]:
    """Tensors in nested lists, to the depth that torch accepts."""
    if depth and isinstance(data, (list, tuple)):
        for item in data:
            if isinstance(item, torch.Tensor):
                yield item
            elif isinstance(item, (list, tuple)):
                yield from _tensors_in(item, depth - 1)
