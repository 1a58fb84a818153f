"""The fastest way to copy an eager tensor to a named device, without the cost of a scope.

``with tf.device(name): tf.raw_ops.DeepCopy(x=x)`` costs half as much again as the operation. The
function behind TensorFlow's generated Python takes the device's name as an argument. It is not
public and may change: :func:`eager_copy` then returns None, and the caller uses the public way.

An operation whose input lies on another device first brings that over, and keeps what it brought
with the input, as long as the input lives: twice the memory, and a second copy that moves nothing.
The device policy "explicit" forbids it. So what is copied is brought over here, by a handle of its
own: between memories that is the copy already, between CPUs another name for the same memory.
https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/common_runtime/eager/execute.cc
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf  # type: ignore[import-untyped]

from unidev_tensorflow.tensors import EAGER

try:
    from tensorflow.python import pywrap_tfe  # type: ignore[import-untyped]
    from tensorflow.python.eager import context, execute  # type: ignore[import-untyped]
except ImportError:  # the public way remains
    context = None

if TYPE_CHECKING:
    from unidev.contract import Array

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

HOSTED = frozenset({tf.int32, tf.string})
"""The dtypes that TensorFlow keeps in the host's memory, even for a GPU:
https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/kernels/resource_variable_ops.cc"""
HOSTED_NUMBERS = frozenset(dtype.as_datatype_enum for dtype in HOSTED)
NOT_INITIALIZED = "dst tensor is not initialized"
"""TensorFlow's message, in lower case, when it copies to a GPU that is full."""
_REFERENCE_NUMBERS = frozenset(dtype.as_datatype_enum for dtype in (tf.resource, tf.variant))


def eager_copy(x: Any, name: str, numbers: frozenset[int]) -> Any:
    """``x`` in new memory on the device called ``name``, recorded by tapes; None if not possible.

    Args:
        x: an eager tensor.
        name: the full name of an existing device.
        numbers: the type numbers of the dtypes that ``DeepCopy`` takes there.

    Raises:
        tf.errors.ResourceExhaustedError, RuntimeError: there is no memory. TensorFlow has waited
            ten seconds for some, and would wait again in another way.
    """
    try:
        running = context.context()
        thread = running._thread_local_data
        number = x._datatype_enum()
        if not thread.is_eager or thread.op_callbacks or number in _REFERENCE_NUMBERS:
            return None
        attributes = ("T", number)
        brought, is_new = x, False
        if numbers is GPU_NUMBERS or x.device != name:
            brought, is_new = _brought(x, name, number)
        if is_new:
            made = [brought]
        elif number in numbers:
            made = pywrap_tfe.TFE_Py_Execute(
                running._handle, name, "DeepCopy", [brought], attributes, 1
            )  # fmt: skip
        else:
            return None
        if not pywrap_tfe.TFE_Py_TapeSetIsEmpty():
            execute.record_gradient("DeepCopy", [x], attributes, made)
        copied = made[0]
    except tf.errors.ResourceExhaustedError:
        raise
    except Exception as error:
        # What is not public may change, and then fail in any way: the public way copies instead, or
        # says better what is wrong. Lack of memory alone it would only wait for once more.
        if NOT_INITIALIZED in str(error).lower():
            raise
        return None
    return copied if copied.device == name else None


def eager_copies(xs: list[Any], source: str, name: str, numbers: frozenset[int]) -> Any:
    """``eager_copy`` of tensors in the memory of the device called ``source``: less time for each.

    None where that is not possible for all; fails as TensorFlow does.
    """
    if context is None:
        return None
    running = context.context()
    thread = running._thread_local_data
    if not thread.is_eager or thread.op_callbacks or not pywrap_tfe.TFE_Py_TapeSetIsEmpty():
        return None
    kinds = [x._datatype_enum() for x in xs]
    between_hosts = is_on_host(source) and is_on_host(name)
    if not numbers.issuperset(kinds) or not (between_hosts or HOSTED_NUMBERS.isdisjoint(kinds)):
        return None
    if source != name:
        xs = [x._copy_to_device(name) for x in xs]
        if not between_hosts:
            return xs
    execute_ = pywrap_tfe.TFE_Py_Execute
    handle = running._handle
    return [
        execute_(handle, name, "DeepCopy", [x], ("T", number), 1)[0]
        for x, number in zip(xs, kinds, strict=True)
    ]


def eager_constant(values: Array, name: str, dtype: Any) -> Any:
    """The tensor of ``tf.constant`` under ``tf.device(name)``, without the scope; None in a graph.

    Also None where it fails: the public way fails with a better message.
    """
    if not tf.executing_eagerly():
        return None
    try:  # a copy, as there: an eager tensor may be made on the array's own memory
        return EAGER(values.copy(), name, dtype.as_datatype_enum)
    except (tf.errors.OpError, RuntimeError, TypeError, ValueError):
        return None


def _brought(x: Any, name: str, number: int) -> tuple[Any, bool]:
    """``x`` in the memory of the device called ``name``, and whether that is the copy already."""
    home = home_of(name, is_hosted=True) if number in HOSTED_NUMBERS else name
    source = x.backing_device
    if source == home:
        return x, False
    brought = x._copy_to_device(home)
    return brought, home == name and are_apart(source, home)


def home_of(name: str, *, is_hosted: bool) -> str:
    """The device in whose memory TensorFlow keeps a tensor of the device called ``name``."""
    return first_cpu(name) if is_hosted and not is_on_host(name) else name


def first_cpu(name: str) -> str:
    """The full name of the host of the device called ``name``."""
    return f"{name.rpartition('/')[0]}/device:CPU:0"


def is_on_host(name: str) -> bool:
    """Whether the device's memory is the host's, which all CPUs share."""
    return "/device:CPU:" in name


def are_apart(one: str, other: str) -> bool:
    """Whether two different devices have different memories."""
    return not (is_on_host(one) and is_on_host(other))
