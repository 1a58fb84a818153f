"""The fastest way to run ``DeepCopy`` on a named device, without the cost of a scope.

``with tf.device(name): tf.raw_ops.DeepCopy(x=x)`` costs half as much again as the operation. The
function behind TensorFlow's generated Python takes the device's name as an argument. It is not
public and may change: :func:`eager_copy` then returns None, and the caller uses the public way.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf  # type: ignore[import-untyped]

try:
    from tensorflow.python import pywrap_tfe  # type: ignore[import-untyped]
    from tensorflow.python.eager import context, execute  # type: ignore[import-untyped]
except ImportError:  # the public way remains
    context = None

DTYPES = (
    tf.bool, tf.int8, tf.int16, tf.int32, tf.int64, tf.uint8, tf.uint16, tf.uint32, tf.uint64,
    tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.complex64, tf.complex128,
)  # fmt: skip
"""The dtypes that NumPy has too; ``DeepCopy`` takes them all on a CPU, and strings."""

CPU_COPIED = frozenset(DTYPES) | {tf.string}
GPU_COPIED = frozenset({
    tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.int8, tf.uint8, tf.int32, tf.int64,
    tf.uint64,
})  # fmt: skip
"""The dtypes for which GPUs have ``DeepCopy`` (int32 in host memory, as always on GPUs):
https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/kernels/inplace_ops.cc"""

CPU_NUMBERS = frozenset(dtype.as_datatype_enum for dtype in CPU_COPIED)
GPU_NUMBERS = frozenset(dtype.as_datatype_enum for dtype in GPU_COPIED)


def eager_copy(x: Any, name: str, numbers: frozenset[int]) -> Any:
    """``x`` in new memory on the device called ``name``, recorded by tapes; None if not possible.

    Args:
        x: an eager tensor.
        name: the full name of an existing device.
        numbers: the type numbers of the dtypes that ``DeepCopy`` takes there.
    """
    try:
        running = context.context()
        thread = running._thread_local_data
        number = x._datatype_enum()
        if number not in numbers or not thread.is_eager or thread.op_callbacks:
            return None
        inputs = [x]
        attributes = ("T", number)
        made = pywrap_tfe.TFE_Py_Execute(
            running._handle, name, "DeepCopy", inputs, attributes, 1
        )  # fmt: skip
        if not pywrap_tfe.TFE_Py_TapeSetIsEmpty():
            execute.record_gradient("DeepCopy", inputs, attributes, made)
        copied = made[0]
    except Exception:  # noqa: BLE001  whatever is wrong, the public way says it better
        return None
    return copied if copied.device == name else None
