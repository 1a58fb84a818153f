"""TensorFlow's tracer, each time without one precaution: what it misses, adds or miscounts."""

from __future__ import annotations

import contextlib

from mutants.mutant import replace, when_restored
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
