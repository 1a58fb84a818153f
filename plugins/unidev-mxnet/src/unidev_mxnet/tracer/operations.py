"""Stand-ins for the C functions that compute: operators, the backward pass, a KVStore."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unidev.contract import PlannedTransfer
from unidev_mxnet.tracer.arrays import are_apart, are_together, device_at, size_at
from unidev_mxnet.tracer.gradients import Crossing, gradients, head_gradients, remember
from unidev_mxnet.tracer.names import calling_function, operator_name, outermost_call, short

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from unidev.contract import Backend, Device
    from unidev_mxnet.tracer.recording import MxnetRecording

    Function = Callable[..., Any]

_COPYING = ("_copyto", "_copy", "_np_copy")
"""Operators that only copy; the only ones that MXNet lets move data from a CPU to a real GPU."""
_ARRAY = 14
"""``TypeCode.NDARRAYHANDLE`` of MXNet's FFI."""


class Operations:
    """Report what moves, and call the originals."""

    def __init__(self, backend: Backend, recording: MxnetRecording) -> None:
        self._backend = backend
        self._recording = recording

    def by_name(self) -> Iterator[tuple[str, Callable[[Function], Function]]]:
        """The name of each function, and the factory of its stand-in."""
        yield "MXImperativeInvokeEx", self._invoke
        yield "MXNetFuncCall", self._call
        yield "MXAutogradBackwardEx", self._backward
        for push in ("Push", "PushEx", "PushPull", "PushPullEx"):
            yield f"MXKVStore{push}", self._store

    # -- operators ---------------------------------------------------------------------------------

    def _invoke(self, original: Function) -> Function:
        """``MXImperativeInvokeEx``: all operators except two."""

        def invoke(*arguments: Any) -> Any:
            if not self._recording.is_on:
                return original(*arguments)
            operator, _, arrays, count, outs = arguments[:5]
            inputs = arrays[:]
            given = [outs._obj[index] for index in range(count._obj.value)]
            if len(inputs) + len(given) < 2 or are_together([*inputs, *given]):
                return original(*arguments)
            if self._recording.is_in_store:  # the store keeps weights on a CPU by itself
                return original(*arguments)
            crossings = self._crossings(operator_name(operator), inputs, given)
            status = self._recording.call(_transfers(crossings), original, *arguments)
            if status == 0 and crossings:
                remember(self._recording.gradients, crossings, inputs, outs._obj[0])
            return status

        return invoke

    def _call(self, original: Function) -> Function:
        """``MXNetFuncCall``: in 1.9.1, the only one that takes arrays is ``tensordot``."""

        def call(*arguments: Any) -> Any:
            if not self._recording.is_on:
                return original(*arguments)
            _, values, codes, count, result, code = arguments
            inputs = [values[i].v_handle for i in range(count.value) if codes[i] == _ARRAY]
            if len(inputs) < 2 or are_together(inputs):
                return original(*arguments)
            crossings = self._crossings(calling_function(), inputs, [])
            status = self._recording.call(_transfers(crossings), original, *arguments)
            if status == 0 and crossings and code._obj.value == _ARRAY:
                remember(self._recording.gradients, crossings, inputs, result._obj.v_handle)
            return status

        return call

    def _crossings(
        self, operator: str, inputs: Sequence[int | None], given: Sequence[int | None]
    ) -> list[Crossing]:
        """MXNet computes on the device of the first operand, and writes to ``out``."""
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
            moved = inputs[0] if is_copy else array  # a sparse target is still empty
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
        """MXNet refuses a CPU operand beside a real GPU's, and the reverse."""
        if array is None or source is None or target is None or not are_apart(source, target):
            return []
        if not is_copy and source.kind != target.kind and not self._backend.simulated_count:
            return []
        shape, nbytes = size_at(array)
        return [Crossing(PlannedTransfer(name, source, target, nbytes, shape), index)]

    # -- gradients ---------------------------------------------------------------------------------

    def _backward(self, original: Function) -> Function:
        """``MXAutogradBackwardEx``: ``backward`` and ``autograd.grad``."""

        def backward(*arguments: Any) -> Any:
            if not self._recording.is_on:
                return original(*arguments)
            _, heads, given, _, variables, retain = arguments[:6]
            found = [
                *head_gradients(heads[:], given, self._backend),
                *gradients(self._recording.gradients, heads[:], variables),
            ]
            status = self._recording.call([transfer for _, transfer in found], original, *arguments)
            if status == 0 and not retain.value:
                for name, _ in found:
                    self._recording.gradients.pop(name, None)
            return status

        return backward

    # -- stores ------------------------------------------------------------------------------------

    def _store(self, original: Function) -> Function:
        """A ``KVStore``: its optimizer's reads are reported, its own transfers are not."""

        def push(*arguments: Any) -> Any:
            if not self._recording.is_on or self._recording.is_in_store:
                return original(*arguments)
            return self._recording.call_store(original, *arguments)

        return push


def _transfers(crossings: Sequence[Crossing]) -> list[PlannedTransfer]:
    return [each.transfer for each in crossings]
