"""Replacements for the functions that run TensorFlow's operations.

Only TensorFlow's placer decides which operand moves, and only its error names it: under the device
policy "explicit" an operation fails before anything moves, naming the first operand on another
device. So each operation first runs under that policy, then again under the user's, once the
transfers are reported. The policy is per thread, and is restored after each operation.
"""

from __future__ import annotations

import re
from functools import cache, wraps
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf  # type: ignore[import-untyped]
from tensorflow.python import pywrap_tfe  # type: ignore[import-untyped]
from tensorflow.python.eager import core  # type: ignore[import-untyped]
from tensorflow.python.framework import op_def_registry  # type: ignore[import-untyped]
from tensorflow.python.framework.kernels import get_registered_kernels_for_op  # type: ignore[import-untyped]

from unidev_tensorflow.tensors import EAGER
from unidev_tensorflow.tracer.names import called
from unidev_tensorflow.tracer.transfers import ON_HOST, transfer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from unidev.contract import Device
    from unidev_tensorflow.tracer.recording import TensorFlowRecording
    from unidev_tensorflow.tracer.transfers import Sight

    Function = Callable[..., Any]
    Way = tuple[Any, Device, Device]
    MaybeWay = tuple[Any, Device | None, Device | None]

_EXPLICIT = pywrap_tfe.TFE_DEVICE_PLACEMENT_EXPLICIT
_get_policy = pywrap_tfe.TFE_ContextGetDevicePlacementPolicy
_set_policy = pywrap_tfe.TFE_ContextSetThreadLocalDevicePlacementPolicy

CONFLICT = re.compile(
    r"Tensors on conflicting devices: cannot compute \S+ as input #(\d+) was expected to be on "
    r"(\S+) but is actually on (\S+) \(operation running on (\S+)\)"
)
_FAILURES = (core._NotOkStatusException, tf.errors.InvalidArgumentError)
"""Raised by the fast path, and by the other path."""
_MOVERS = {"Identity", "IdentityN", b"Identity", b"IdentityN"}
"""Exempt from that policy: TensorFlow's own advice is to copy with them."""
_MOVED = (EAGER, tf.Variable)
"""Not numbers, which TensorFlow turns into tensors where it needs them."""


class Operations:
    """Reports what each operation moves, and runs it."""

    def __init__(self, sight: Sight, recording: TensorFlowRecording) -> None:
        self._sight = sight
        self._recording = recording

    def fast_path(self, original: Function) -> Function:
        """``TFE_Py_FastPathExecute(context, operation, name, *inputs_and_attributes)``."""

        @wraps(original)
        def execute(running: Any, operation: Any, name: Any, *rest: Any) -> Any:
            if not self._recording.is_on:
                return original(running, operation, name, *rest)

            def run() -> Any:
                return original(running, operation, name, *rest)

            running.ensure_initialized()
            if operation in _MOVERS:
                return self._move(operation, _inputs(operation, rest), running.device_name, run)

            def explicitly() -> Any:
                return self._run(running._handle, operation, lambda: _inputs(operation, rest), run)

            arrays = list(_arrays(rest))
            if arrays:
                return self._send(
                    operation, arrays, running.device_name,
                    lambda: self._read(operation, rest, explicitly),
                )  # fmt: skip
            return self._read(operation, rest, explicitly)

        return execute

    def execute(self, original: Function) -> Function:
        """``TFE_Py_Execute(handle, device, operation, inputs, …)``."""

        @wraps(original)
        def execute(
            handle: Any, device: Any, operation: Any, inputs: Any, *rest: Any, **options: Any
        ) -> Any:
            def run() -> Any:
                return original(handle, device, operation, inputs, *rest, **options)

            if handle is None or not self._recording.is_on:
                return run()
            if operation in _MOVERS:
                return self._move(operation, inputs, device, run)
            return self._run(handle, operation, lambda: inputs, run)

        return execute

    def _run(
        self, handle: Any, operation: Any, inputs: Callable[[], list[Any]], run: Callable[[], Any]
    ) -> Any:
        outer = self._recording.policy  # set in Python that the runtime calls within an operation
        policy = _get_policy(handle) if outer is None else outer
        if policy == _EXPLICIT:
            return run()  # the user chose this error
        self._recording.policy = policy
        _set_policy(handle, _EXPLICIT)
        try:
            return run()
        except _FAILURES as error:
            conflict = CONFLICT.match(error.message)
            if conflict is None:
                raise
        finally:
            self._recording.policy = outer
            _set_policy(handle, policy if outer is None else _EXPLICIT)
        ways = self._ways(inputs(), conflict)
        if outer is None:
            return self._report(operation, ways, run)
        _set_policy(handle, policy)
        try:
            return self._report(operation, ways, run)
        finally:
            _set_policy(handle, _EXPLICIT)

    def _ways(self, inputs: Sequence[Any], conflict: re.Match[str]) -> Iterator[MaybeWay]:
        """Operands and their ways: TensorFlow names the first one, and there may be others."""
        first = int(conflict[1])
        expected, actual, running = map(self._sight.device_named, conflict.group(2, 3, 4))
        for position, x in enumerate(inputs):
            is_on_host = getattr(x, "dtype", None) in ON_HOST
            if position == first and not (is_on_host and self._sight.is_simulated):
                yield x, actual, expected
            elif not is_on_host:
                yield x, self._sight.device_of(x), running

    def _move(
        self, operation: Any, inputs: Sequence[Any], name: Any, run: Callable[[], Any]
    ) -> Any:
        target, look = self._sight.default(name), self._sight.device_read
        may_move = [x for x in inputs if self._sight.is_simulated or x.dtype not in ON_HOST]
        ways = [(x, look(x, is_direct=True), target) for x in may_move]
        return self._report(operation, ways, run)

    def _send(
        self, operation: Any, arrays: Sequence[Any], name: Any, run: Callable[[], Any]
    ) -> Any:
        sent = [self._sight.sent(x, None, name, _text(operation)) for x in arrays]
        return self._recording.call([each for moved in sent for each in moved], run)

    def _read(self, operation: Any, rest: Sequence[Any], run: Callable[[], Any]) -> Any:
        """Shapes and the like, which TensorFlow reads on the host, whatever the device policy.

        From a real GPU it copies them, from a simulated one it does not (seen in 2.21).
        """
        if not _read_on_host(operation):
            return run()
        cpu = self._sight.cpu
        read = [rest[at] for at in _read_on_host(operation)]
        read = [x for x in read if isinstance(x, _MOVED) and x.dtype not in ON_HOST]
        return self._report(operation, [(x, self._sight.device_of(x), cpu) for x in read], run)

    def _report(self, operation: Any, ways: Iterable[MaybeWay], run: Callable[[], Any]) -> Any:
        known = [
            (x, source, target) for x, source, target in ways
            if source is not None and target is not None and isinstance(x, _MOVED)
        ]  # fmt: skip
        going = [
            (x, source, target) for x, source, target in _each_once(known)
            if source is not target and not self._recording.is_sent(x, target)
        ]  # fmt: skip
        if not going:
            return run()
        is_mixed = any(source is target and _counts(x) for x, source, target in known)
        name = called(_text(operation)) + (" of mixed operands" if is_mixed else "")

        def run_and_keep() -> Any:
            for x, _, target in going:
                if isinstance(x, EAGER):  # a variable is read again each time
                    self._recording.keep_sent(x, target)
            return run()

        return self._recording.call_with_more([transfer(name, *way) for way in going], run_and_keep)


def _inputs(operation: Any, rest: Sequence[Any]) -> list[Any]:
    """The inputs among the arguments of ``TFE_Py_FastPathExecute``, as the runtime counts them.

    Attributes come after them; operations such as ``concat`` take lists of inputs.
    """
    known = op_def_registry.get(_text(operation))
    found: list[Any] = []
    for argument, x in zip(() if known is None else known.input_arg, rest, strict=False):
        if argument.number_attr or argument.type_list_attr:
            found += x
        else:
            found.append(x)
    return found


def _arrays(inputs: Sequence[Any]) -> Iterator[Any]:
    """NumPy's arrays among the inputs, also in a list of inputs: the runtime converts them."""
    for x in inputs:
        if type(x) is np.ndarray:
            yield x
        elif type(x) is list or type(x) is tuple:
            yield from _arrays(x)


def _each_once(ways: Iterable[Way]) -> Iterable[Way]:
    return {(id(x), target): (x, source, target) for x, source, target in ways}.values()


@cache
def _read_on_host(operation: Any) -> tuple[int, ...]:
    """Positions of the inputs that the operation's CPU kernel reads in host memory."""
    known = op_def_registry.get(_text(operation))
    kernels = get_registered_kernels_for_op(_text(operation)).kernel
    names = {name for each in kernels if each.device_type == "CPU" for name in each.host_memory_arg}
    arguments = () if known is None else known.input_arg
    return tuple(at for at, argument in enumerate(arguments) if argument.name in names)


def _counts(x: Any) -> bool:
    """Whether it is data, not a number, an axis or a shape that TensorFlow has put there."""
    return bool(x.shape.rank) and x.dtype != tf.int32


def _text(operation: Any) -> str:
    return operation.decode() if isinstance(operation, bytes) else str(operation)
