"""TensorFlow's tracer, each time without one precaution: what it misses, adds or miscounts."""

from __future__ import annotations

import contextlib

import numpy as np

from mutants.mutant import replace, replace_value, when_restored
from mutants.tensorflow import tensorflow_mutant

_CALLS = "tracer.each_call_of_the_framework"


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


@tensorflow_mutant(
    "tracer.read_is_reported_once", around=".tracer.patches:TensorFlowPatches.replacements"
)
def reads_pass_the_tracer_by(exact, self):
    """Only operations are watched, and ``x.numpy()`` runs none."""
    from unidev_tensorflow.tensors import EAGER

    return (each for each in exact(self) if each[0] is not EAGER)


@tensorflow_mutant(_CALLS, everywhere=".tracer.operations:_inputs")
def tf_operands_in_lists_are_lost(sound, operation, rest):
    """Inputs are the arguments that are tensors: those of ``concat`` and ``add_n`` are a list."""
    from unidev_tensorflow.tensors import EAGER

    return [x for x in rest if isinstance(x, EAGER)]


@tensorflow_mutant(_CALLS, everywhere=".tracer.operations:_arrays")
def tf_arrays_in_lists_are_lost(sound, inputs):
    """NumPy's arrays are sent unseen if they are in a list of operands: until 2026-11-24."""
    return [x for x in inputs if type(x) is np.ndarray]


@tensorflow_mutant(_CALLS, everywhere=".tracer.readings:_tensors_in")
def tf_nested_lists_are_read_unseen(sound, values):
    """NumPy's functions are searched for tensors one level deep: until 2026-11-24."""
    from unidev_tensorflow.tensors import EAGER

    lists = (x if type(x) in (list, tuple) else [x] for x in values)
    return [x for each in lists for x in each if isinstance(x, EAGER)]


@tensorflow_mutant(_CALLS)
def tf_operands_are_reported_each_time(backend):
    """A copy that TensorFlow keeps beside a tensor is reported whenever it is used."""
    from unidev_tensorflow.tracer.recording import TensorFlowRecording

    replace_value(TensorFlowRecording, "is_sent", lambda self, x, target: False)


@tensorflow_mutant(_CALLS)
def tf_variables_are_reported_once(backend):
    """A variable counts as kept beside itself, like a tensor; it is read again each time."""
    import tensorflow as tf

    from unidev_tensorflow.tensors import EAGER
    from unidev_tensorflow.tracer import operations

    replace_value(operations, "EAGER", (EAGER, tf.Variable))


@tensorflow_mutant(_CALLS, around=".tracer.transfers:Sight.sent")
def tf_lists_are_float32(exact, self, value, dtype, name, operation):
    """The bytes of a list are 4 for each number, whatever TensorFlow makes of it."""
    if isinstance(value, list) and dtype is None and np.asarray(value).dtype.kind == "f":
        value = np.asarray(value, np.float32)
    return exact(self, value, dtype, name, operation)


@tensorflow_mutant(_CALLS)
def tf_int32_is_always_on_the_host(backend):
    """On simulated GPUs int32 is where TensorFlow keeps it for real ones: no read is reported."""
    from unidev_tensorflow.tracer.transfers import Sight

    replace_value(Sight, "is_taken_along", lambda self, dtype, is_direct: False)


@tensorflow_mutant(_CALLS)
def tf_shapes_are_the_users_data(backend):
    """The shape in ``tf.constant(2.0, shape=…)`` is reported as sent: until 2026-11-24."""
    from unidev_tensorflow.tracer.readings import Readings

    replace_value(Readings, "shaping", lambda self, original, position: original)


@tensorflow_mutant(_CALLS, everywhere=".tracer.operations:_read_on_host")
def tf_shapes_are_read_unseen(sound, operation):
    """A shape on a GPU, which kernels read on the host under any device policy, is not seen."""
    return ()


@tensorflow_mutant(_CALLS)
def tf_missing_devices_are_targets(backend):
    """A move to a missing device is reported, which soft placement ignores: until 2026-11-24."""
    from unidev_tensorflow.tracer.transfers import Sight

    replace_value(Sight, "_is_missing", lambda self, name, kind, index: False)


@tensorflow_mutant(_CALLS, everywhere=".tracer.names:called")
def tf_calls_are_named_by_their_operation(sound, operation):
    """The name is the runtime's, such as ``AddV2``, not that of the user's call."""
    return operation


@tensorflow_mutant(_CALLS, everywhere=".tracer.operations:_counts")
def tf_axes_are_operands(sound, x):
    """An axis on the CPU beside a tensor of the GPU makes mixed operands of them."""
    return True
