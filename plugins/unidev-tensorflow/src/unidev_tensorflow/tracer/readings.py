"""Functions in the place of those that read a tensor into NumPy, copy it, or make one of values."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf  # type: ignore[import-untyped]

from unidev.contract import PlannedTransfer
from unidev_tensorflow.tensors import EAGER
from unidev_tensorflow.tracer.names import called
from unidev_tensorflow.tracer.thread import thread, told
from unidev_tensorflow.tracer.transfers import ON_HOST, transfer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from unidev_tensorflow.tracer.transfers import Sight

    Function = Callable[..., Any]


_READS = {"pickle", "Variable.numpy"} | {
    f"Tensor.{name}" for name in (
        "__array__", "__bool__", "__complex__", "__float__", "__format__", "__index__", "__int__",
        "__repr__", "__str__", "numpy",
    )
}  # fmt: skip
"""Calls of a user's that read a tensor; others may read an axis or a shape that is TensorFlow's."""
_MAKERS = {"Variable.__init__", "tf.constant", "tf.convert_to_tensor"}
"""Calls of a user's that make a tensor; likewise."""


class Readings:
    """What they do besides the originals: tell."""

    def __init__(self, sight: Sight) -> None:
        self._sight = sight

    def reading(self, original: Function) -> Function:
        """``EagerTensor._numpy_internal``, behind ``numpy``, ``float``, ``print`` and the like."""

        @wraps(original)
        def read(x: Any) -> Any:
            if not thread.scopes or thread.is_within:
                return original(x)
            return self._read([x], None, lambda: original(x))

        return read

    def copying(self, original: Function) -> Function:
        """``EagerTensor._copy_to_device``, behind ``cpu`` and ``gpu``."""

        @wraps(original)
        def copy(x: Any, *arguments: Any, **options: Any) -> Any:
            if not thread.scopes or thread.is_within:
                return original(x, *arguments, **options)
            (name,) = (*arguments, *options.values())
            source = self._sight.device_of(x)
            target = self._sight.device_named(name) if name else self._sight.cpu
            if source is None or target is None or source is target:
                return original(x, *arguments, **options)
            moved = transfer(called("Tensor._copy"), x, source, target)
            return told([moved], lambda: original(x, *arguments, **options))

        return copy

    def array(self, original: Function) -> Function:
        """``numpy.asarray`` and its kin, of tensors and of lists of them."""

        @wraps(original)
        def make(*arguments: Any, **options: Any) -> Any:
            if not thread.scopes or thread.is_within:
                return original(*arguments, **options)
            name = f"numpy.{original.__name__}"
            found = _tensors_in(arguments[:1])
            return self._read(found, name, lambda: original(*arguments, **options))

        return make

    def array_function(self) -> Function:
        """``__array_function__``, which TensorFlow has not: NumPy then asks it."""

        def dispatch(_: Any, function: Any, __: Any, args: Any, options: Any) -> Any:
            def run() -> Any:
                return function._implementation(*args, **options)

            if not thread.scopes or thread.is_within:
                return run()
            found = _tensors_in((*args, *options.values()))
            return self._read(found, f"numpy.{function.__name__}", run)

        return dispatch

    def filling(self, original: Function) -> Function:
        """``convert_to_eager_tensor``, behind ``tf.constant``, of what is no tensor yet."""

        @wraps(original)
        def fill(value: Any, context: Any, dtype: Any = None) -> Any:
            if not thread.scopes or thread.is_within or isinstance(value, EAGER):
                return original(value, context, dtype)
            moved = self.sent(value, dtype, context.device_name, "tf.constant")
            if moved is None:
                return original(value, context, dtype)
            return told([moved], lambda: original(value, context, dtype))

        return fill

    def sent(
        self, value: Any, dtype: Any, name: str | None, operation: str
    ) -> PlannedTransfer | None:
        """NumPy's array, or a list, as what goes from the host to the device of a scope."""
        target = self._sight.default(name)
        if target is None or target is self._sight.cpu:
            return None
        array = _as_array(value)
        if array is None:
            return None
        wanted = tf.as_dtype(_dtype_of(array, value) if dtype is None else dtype)
        name = called(operation)
        if wanted in ON_HOST and not self._sight.is_taken_along(wanted, name in _MAKERS):
            return None
        size = array.size * wanted.size
        return PlannedTransfer(name, self._sight.cpu, target, size, array.shape)

    def _read(self, tensors: list[Any], operation: str | None, call: Callable[[], Any]) -> Any:
        moved = []
        for x in {id(x): x for x in tensors}.values():
            name = called(operation or "Tensor.numpy")
            source = self._sight.device_read(x, is_direct=name in _READS or operation is not None)
            if source is not None and source.kind != "cpu":
                moved.append(transfer(name, x, source, self._sight.cpu))
        return told(moved, call) if moved else call()


def _tensors_in(arguments: tuple[Any, ...]) -> list[Any]:
    return [x for x in _each(arguments) if isinstance(x, EAGER)]


def _each(arguments: tuple[Any, ...]) -> Iterator[Any]:
    for x in arguments:
        if type(x) is list or type(x) is tuple:
            yield from x
        else:
            yield x


def _as_array(value: Any) -> Any:
    """None of single numbers, of tensors, and of what is no array."""
    if isinstance(value, np.ndarray):
        return value
    if not isinstance(value, (list, tuple)) or any(isinstance(x, tf.Tensor) for x in value):
        return None
    try:
        return np.asarray(value)
    except ValueError:  # ragged: TensorFlow says so itself
        return None


def _dtype_of(array: Any, value: Any) -> Any:
    """TensorFlow takes Python's floats for float32, and its ints for int32."""
    if value is array or array.dtype.kind not in "fi":
        return array.dtype
    return np.float32 if array.dtype.kind == "f" else np.int32
