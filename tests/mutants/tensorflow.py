"""TensorFlow's backend, each time without one precaution of its plugin: tensors and devices."""

from __future__ import annotations

import contextlib
from functools import partial

import numpy as np

from mutants.mutant import TENSORFLOW, mutant, replace, replace_value, when_restored

tensorflow_mutant = partial(mutant, plugin=TENSORFLOW)


# -- copies ----------------------------------------------------------------------------------------


@tensorflow_mutant("copy.strings_ragged_sparse", everywhere=".deep_copy.public:gathered")
def quantized_copies_are_identities(sound, x):
    """``DeepCopy`` refuses quantized and 8-bit floating-point numbers: these go by identity."""
    import tensorflow as tf

    return tf.identity(x)


# -- making and reading tensors --------------------------------------------------------------------


@tensorflow_mutant(
    "create.from_numpy_without_aliasing",
    "host_data.put_host_arrays",
    everywhere=".deep_copy.eager:eager_constant",
)
def eager_tensors_on_the_arrays_memory(sound, values, name, dtype):
    """An ``EagerTensor`` made of an array takes its memory, if that is aligned."""
    import tensorflow as tf

    from unidev_tensorflow.deep_copy import eager

    if not tf.executing_eagerly():
        return None
    return eager.EAGER(values, name, dtype.as_datatype_enum)


@tensorflow_mutant("create.from_numpy_without_aliasing", "host_data.get")
def reads_are_the_tensors_own_memory(backend):
    """``x.__array__()`` is an array on the memory of a tensor that never changes, and writable."""
    replace_value(backend, "to_numpy", lambda self, x: self._value(x).__array__())


@tensorflow_mutant("create.device_of_tensor_view_and_result", around="device_of")
def device_of_is_where_the_memory_is(exact, self, x):
    """``backing_device``: of strings it is CPU:0, whatever their device."""
    import tensorflow as tf

    is_text = isinstance(x, tf.Tensor) and x.dtype == tf.string
    return self._by_name[x.backing_device] if is_text else exact(self, x)


@tensorflow_mutant("values.tensors_convert_as_lists_do", around="cast")
def casts_are_of_the_frameworks_own(sound, self, x, dtype, device):
    """``tf.cast`` on the device, which flushes subnormal numbers: 1e-40 as bool is False."""
    import tensorflow as tf

    return self._make(lambda: tf.cast(x, dtype), device)


# -- other frameworks ------------------------------------------------------------------------------


@tensorflow_mutant("converting.immutable", profile="interop")
def others_may_write_to_tensors(backend):
    """Tensors are shared as if they were mutable: only TensorFlow's own API never writes to one."""
    from unidev_tensorflow.memory.interop import TensorFlowInterop

    replace_value(TensorFlowInterop, "is_immutable", lambda self, x: False)


@tensorflow_mutant(
    "converting.shared", profile="interop", around=".memory.interop:TensorFlowInterop.adopt"
)
def adopted_arrays_are_constants(sound, self, exported, is_read_only):
    """``tf.constant`` of an array, TensorFlow's usual door, has memory of its own."""
    import tensorflow as tf

    with tf.device("/device:CPU:0"):
        return tf.constant(np.from_dlpack(exported))


# -- peculiar tensors ------------------------------------------------------------------------------


@tensorflow_mutant("smoke.globals_restored")
def tf_stays_asynchronous(backend):
    """A copy that need not block makes every later operation of the thread asynchronous."""
    import tensorflow as tf

    copy, settings = backend.copy_to, tf.config.experimental

    @replace(backend)
    def copy_to(self, x, device, non_blocking):
        if non_blocking:
            settings.set_synchronous_execution(False)
            when_restored(lambda: settings.set_synchronous_execution(True))
        return copy(self, x, device, non_blocking)


@tensorflow_mutant("tracer.framework_is_as_it_was")
def traces_leave_the_explicit_policy(backend):
    """The device policy that finds mixed operands stays when the scope ends."""
    import tensorflow as tf

    from unidev_tensorflow.tracer import TensorFlowTracer

    exact, settings = TensorFlowTracer.watch, tf.config.experimental
    when_restored(lambda: settings.set_device_policy("silent"))

    @replace(TensorFlowTracer)
    @contextlib.contextmanager
    def watch(self, begin, end):
        try:
            with exact(self, begin, end):
                yield
        finally:
            settings.set_device_policy("explicit")


@tensorflow_mutant("tracer.each_call_of_the_framework", everywhere=".tracer.operations:_inputs")
def tf_operands_in_lists_are_lost(sound, operation, rest):
    """Inputs are the arguments that are tensors: those of ``concat`` and ``add_n`` are a list."""
    from unidev_tensorflow.tensors import EAGER

    return [x for x in rest if isinstance(x, EAGER)]
