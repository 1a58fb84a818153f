"""The functions of MXNet's C library that move data, with what they move told first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unidev.contract import PlannedTransfer
from unidev_mxnet.tracer.arrays import are_together, device_at, size_at
from unidev_mxnet.tracer.gradients import Crossing, gradients, head_gradients, remember
from unidev_mxnet.tracer.names import calling_function, operator_name, outermost_call, short
from unidev_mxnet.tracer.thread import thread, told

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from unidev import Backend, Device

    Function = Callable[..., Any]

_COPYING = ("_copyto", "_copy", "_np_copy")
"""Operators that do nothing else; the only ones that MXNet lets go from a CPU to a real GPU."""
_ARRAY = 14
"""``TypeCode.NDARRAYHANDLE`` of MXNet's FFI."""


class TracedCalls:
    """What stands in for each C function: takes what that takes, and returns its 0 or -1."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def by_name(self) -> dict[str, Callable[[Function], Function]]:
        """What to make of each function, by its name."""
        simple: dict[str, Callable[..., list[PlannedTransfer]]] = {
            "MXNDArraySyncCopyToCPU": self._read,
            "MXNDArraySaveRawBytes": self._read,  # pickle, deepcopy
            "MXNDArrayGetSharedMemHandle": self._read,  # to other processes of a DataLoader
            "MXNDArraySyncCopyFromCPU": self._filled,
            "MXNDArraySyncCopyFromNDArray": self._filled_from,  # parts of a sparse array
            "MXNDArraySave": self._saved,
        }
        return {
            **{name: _telling(find) for name, find in simple.items()},
            "MXImperativeInvokeEx": self._invoke,
            "MXNetFuncCall": self._call,
            "MXAutogradBackwardEx": self._backward,
            "MXKVStorePush": _store,
            "MXKVStorePushEx": _store,
            "MXKVStorePushPull": _store,
            "MXKVStorePushPullEx": _store,
        }

    # -- between a device and the host -------------------------------------------------------------

    def _read(self, array: Any, *_: Any) -> list[PlannedTransfer]:
        return self._between(array, device_at(array, self._backend), self._backend.cpu)

    def _filled(self, array: Any, *_: Any) -> list[PlannedTransfer]:
        return self._between(array, self._backend.cpu, device_at(array, self._backend))

    def _filled_from(self, target: Any, source: Any, *_: Any) -> list[PlannedTransfer]:
        backend = self._backend
        return self._between(source, device_at(source, backend), device_at(target, backend))

    def _saved(self, _file: Any, _count: Any, arrays: Any, *_: Any) -> list[PlannedTransfer]:
        return [transfer for array in arrays for transfer in self._read(array)]

    def _between(
        self, array: Any, source: Device | None, target: Device | None
    ) -> list[PlannedTransfer]:
        if source is None or target is None or not _is_apart(source, target):
            return []
        shape, nbytes = size_at(array)
        return [PlannedTransfer(outermost_call(), source, target, nbytes, shape)]

    # -- operators ---------------------------------------------------------------------------------

    def _invoke(self, original: Function) -> Function:
        """``MXImperativeInvokeEx``: all operators but two."""

        def invoke(*arguments: Any) -> Any:
            if not thread.scopes or thread.is_within:
                return original(*arguments)
            operator, _, arrays, count, outs = arguments[:5]
            inputs = arrays[:]
            given = [outs._obj[index] for index in range(count._obj.value)]
            if len(inputs) + len(given) < 2 or are_together([*inputs, *given]):
                return original(*arguments)
            if thread.is_in_store:  # which keeps weights on a CPU: that is its own affair
                return original(*arguments)
            crossings = self._crossings(operator_name(operator), inputs, given)
            status = told(_transfers(crossings), original, *arguments)
            if status == 0 and crossings:
                remember(crossings, inputs, outs._obj[0])
            return status

        return invoke

    def _call(self, original: Function) -> Function:
        """``MXNetFuncCall``: of those that take arrays, ``tensordot`` in 1.9.1."""

        def call(*arguments: Any) -> Any:
            if not thread.scopes or thread.is_within:
                return original(*arguments)
            _, values, codes, count, result, code = arguments
            inputs = [values[i].v_handle for i in range(count.value) if codes[i] == _ARRAY]
            if len(inputs) < 2 or are_together(inputs):
                return original(*arguments)
            crossings = self._crossings(calling_function(), inputs, [])
            status = told(_transfers(crossings), original, *arguments)
            if status == 0 and crossings and code._obj.value == _ARRAY:
                remember(crossings, inputs, result._obj.v_handle)
            return status

        return call

    def _crossings(
        self, operator: str, inputs: Sequence[int | None], given: Sequence[int | None]
    ) -> list[Crossing]:
        """MXNet computes on the device of the first operand, and writes to where it is told."""
        backend = self._backend
        is_copy = operator in _COPYING
        home = next((device_at(array, backend) for array in (*inputs, *given)), None)
        found: list[Crossing] = []
        for index, array in enumerate(inputs):
            source = device_at(array, backend)
            name = f"{short(operator)} of mixed operands"
            found += self._crossing(name, index, array, source, home, is_copy=False)
        for array in given:
            name = outermost_call() if is_copy else f"out= of {short(operator)}"
            target = device_at(array, backend)
            moved = inputs[0] if is_copy else array  # a sparse target is empty yet
            found += self._crossing(name, 0, moved, home, target, is_copy=is_copy)
        return found

    def _crossing(  # noqa: PLR0913  what it is made of
        self,
        name: str,
        index: int,
        array: int | None,
        source: Device | None,
        target: Device | None,
        *,
        is_copy: bool,
    ) -> list[Crossing]:
        """MXNet refuses a CPU's operand beside a real GPU's, and the other way round."""
        if array is None or source is None or target is None or not _is_apart(source, target):
            return []
        if not is_copy and source.kind != target.kind and not self._backend.simulated_count:
            return []
        shape, nbytes = size_at(array)
        return [Crossing(PlannedTransfer(name, source, target, nbytes, shape), index)]

    # -- gradients ---------------------------------------------------------------------------------

    def _backward(self, original: Function) -> Function:
        """``MXAutogradBackwardEx``: ``backward`` and ``autograd.grad``."""

        def backward(*arguments: Any) -> Any:
            if not thread.scopes or thread.is_within:
                return original(*arguments)
            _, heads, given, _, variables, retain = arguments[:6]
            found = [
                *head_gradients(heads[:], given, self._backend),
                *gradients(heads[:], variables),
            ]
            status = told([transfer for _, transfer in found], original, *arguments)
            if status == 0 and not retain.value:
                for name, _ in found:
                    thread.gradients.pop(name, None)
            return status

        return backward


def _store(original: Function) -> Function:
    """Of a ``KVStore``: what its optimizer reads is told; what it moves itself, nobody sees."""

    def push(*arguments: Any) -> Any:
        if not thread.scopes or thread.is_within or thread.is_in_store:
            return original(*arguments)
        thread.is_in_store = True
        try:
            status = original(*arguments)
        finally:
            thread.is_in_store = False
            refused, thread.refused = thread.refused, None
        if refused is not None:
            raise refused
        return status

    return push


def _telling(find: Callable[..., list[PlannedTransfer]]) -> Callable[[Function], Function]:
    def replaced(original: Function) -> Function:
        def call(*arguments: Any) -> Any:
            if not thread.scopes or thread.is_within:
                return original(*arguments)
            transfers = find(*arguments)
            if not transfers:
                return original(*arguments)
            return told(transfers, original, *arguments)

        return call

    return replaced


def _transfers(crossings: Sequence[Crossing]) -> list[PlannedTransfer]:
    return [each.transfer for each in crossings]


def _is_apart(source: Device, target: Device) -> bool:
    """Not so of two indices of the CPU: without simulation they are one memory."""
    return source is not target and not source.kind == target.kind == "cpu"
