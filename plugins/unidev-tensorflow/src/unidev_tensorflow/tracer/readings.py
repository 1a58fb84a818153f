"""Replacements for functions that read a tensor into NumPy, copy it, or make one from values."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

import tensorflow as tf  # type: ignore[import-untyped]

from unidev_tensorflow.tensors import EAGER
from unidev_tensorflow.tracer.names import called
from unidev_tensorflow.tracer.transfers import transfer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from unidev.contract import PlannedTransfer
    from unidev_tensorflow.tracer.recording import TensorFlowRecording
    from unidev_tensorflow.tracer.transfers import Sight

    Function = Callable[..., Any]


_READS = {"pickle", "Variable.numpy", "Variable.__repr__"} | {
    f"Tensor.{name}" for name in (
        "__array__", "__bool__", "__complex__", "__float__", "__format__", "__index__", "__int__",
        "__repr__", "__str__", "numpy",
    )
}  # fmt: skip
"""A user's calls that read a tensor; others may read an axis or a shape of TensorFlow's."""


class Readings:
    """They report what moves, and call the originals."""

    def __init__(self, sight: Sight, recording: TensorFlowRecording) -> None:
        self._sight = sight
        self._recording = recording

    def reading(self, original: Function) -> Function:
        """``EagerTensor._numpy_internal``, behind ``numpy``, ``float``, ``print`` and the like."""
        return self._recording.wrap(original, lambda x: self._read([x], None))

    def copying(self, original: Function) -> Function:
        """``EagerTensor._copy_to_device``, behind ``cpu`` and ``gpu``."""

        def find(x: Any, *arguments: Any, **options: Any) -> list[PlannedTransfer]:
            (name,) = (*arguments, *options.values())
            source = self._sight.device_of(x)
            target = self._sight.device_named(name) if name else self._sight.cpu
            if source is None or target is None or source is target:
                return []
            return [transfer(called("Tensor._copy"), x, source, target)]

        return self._recording.wrap(original, find)

    def array(self, original: Function) -> Function:
        """``numpy.asarray`` and the like, on tensors and lists of them."""
        name = f"numpy.{original.__name__}"
        return self._recording.wrap(
            original,
            lambda *arguments, **options: self._read(
                list(_tensors_in((*arguments, *options.values()))), name
            ),
        )

    def array_function(self) -> Function:
        """``__array_function__``, which TensorFlow lacks: NumPy calls this instead."""

        def dispatch(_: Any, function: Any, __: Any, arguments: Any, options: Any) -> Any:
            return function._implementation(*arguments, **options)

        def find(
            _: Any, function: Any, __: Any, arguments: Any, options: Any
        ) -> list[PlannedTransfer]:
            found = list(_tensors_in((*arguments, *options.values())))
            return self._read(found, f"numpy.{function.__name__}")

        return self._recording.wrap(dispatch, find)

    def filling(self, original: Function) -> Function:
        """``convert_to_eager_tensor``, behind ``tf.constant``, for a value that is not a tensor."""

        def find(value: Any, context: Any, dtype: Any = None) -> list[PlannedTransfer]:
            if isinstance(value, EAGER):
                return []
            return self._sight.sent(value, dtype, context.device_name, "tf.constant")

        return self._recording.wrap(original, find)

    def shaping(self, original: Function, position: int) -> Function:
        """The steps of ``tf.constant(…, shape=…)``, to which the shape is not the user's data."""

        @wraps(original)
        def shape(*arguments: Any) -> Any:
            if not self._recording.is_on:
                return original(*arguments)
            given = list(arguments)
            given[position] = self._recording.muted(tf.constant, given[position], tf.int32)
            return original(*given)

        return shape

    def _read(self, tensors: list[Any], operation: str | None) -> list[PlannedTransfer]:
        moved = []
        for x in {id(x): x for x in tensors}.values():
            name = called(operation or "Tensor.numpy")
            source = self._sight.device_read(x, is_direct=name in _READS or operation is not None)
            if source is not None and source.kind != "cpu":
                moved.append(transfer(name, x, source, self._sight.cpu))
        return moved


def _tensors_in(values: Sequence[Any]) -> Iterator[Any]:
    for x in values:
        if type(x) is list or type(x) is tuple:
            yield from _tensors_in(x)
        elif isinstance(x, EAGER):
            yield x
