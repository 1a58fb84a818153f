"""TensorFlow's tracer, each time without one precaution: what it misses, adds or miscounts."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from mutants.mutant import in_place_of, replace, replace_value, when_restored
from mutants.tensorflow import tensorflow_mutant

if TYPE_CHECKING:
    from collections.abc import Iterator

_CALLS = "tracer.each_call_of_the_framework"


@tensorflow_mutant("tracer.framework_is_as_it_was")
def traces_leave_the_explicit_policy(backend: Any) -> None:
    """The device policy that finds mixed operands stays when the scope ends."""
    import tensorflow as tf

    from unidev_tensorflow.tracer import TensorFlowTracer

    exact, settings = TensorFlowTracer.watch, tf.config.experimental
    when_restored(lambda: settings.set_device_policy("silent"))

    @replace(TensorFlowTracer)
    @contextlib.contextmanager
    def watch(self: Any, begin: Any, end: Any) -> Iterator[None]:
        try:
            with exact(self, begin, end):
                yield
        finally:
            settings.set_device_policy("explicit")


@tensorflow_mutant("tracer.read_is_reported_once")
def reads_pass_the_tracer_by(backend: Any) -> None:
    """Only operations are watched, and ``x.numpy()`` runs none."""
    from unidev_tensorflow.tensors import EAGER
    from unidev_tensorflow.tracer.patches import TensorFlowPatches

    exact = TensorFlowPatches.replacements

    @replace(TensorFlowPatches)
    def replacements(self: Any) -> Iterator[Any]:
        return (each for each in exact(self) if each[0] is not EAGER)


@tensorflow_mutant(_CALLS)
def tf_operands_in_lists_are_lost(backend: Any) -> None:
    """Inputs are the arguments that are tensors: those of ``concat`` and ``add_n`` are a list."""
    from unidev_tensorflow.tensors import EAGER
    from unidev_tensorflow.tracer import operations

    @in_place_of(operations._inputs)
    def _inputs(operation: Any, rest: Any) -> list[Any]:
        return [x for x in rest if isinstance(x, EAGER)]


@tensorflow_mutant(_CALLS)
def tf_arrays_in_lists_are_lost(backend: Any) -> None:
    """NumPy's arrays are sent unseen if they are in a list of operands: until 2026-11-24."""
    import numpy as np

    from unidev_tensorflow.tracer import operations

    @in_place_of(operations._arrays)
    def _arrays(inputs: Any) -> Any:
        return [x for x in inputs if type(x) is np.ndarray]


@tensorflow_mutant(_CALLS)
def tf_nested_lists_are_read_unseen(backend: Any) -> None:
    """NumPy's functions are searched for tensors one level deep: until 2026-11-24."""
    from unidev_tensorflow.tensors import EAGER
    from unidev_tensorflow.tracer import readings

    @in_place_of(readings._tensors_in)
    def _tensors_in(values: Any) -> Any:
        lists = (x if type(x) in (list, tuple) else [x] for x in values)
        return [x for each in lists for x in each if isinstance(x, EAGER)]


@tensorflow_mutant(_CALLS)
def tf_operands_are_reported_each_time(backend: Any) -> None:
    """A copy that TensorFlow keeps beside a tensor is reported whenever it is used."""
    from unidev_tensorflow.tracer.patches import TensorFlowRecording

    replace_value(TensorFlowRecording, "is_sent", lambda self, x, target: False)


@tensorflow_mutant(_CALLS)
def tf_variables_are_reported_once(backend: Any) -> None:
    """A variable counts as kept beside itself, like a tensor; it is read again each time."""
    import tensorflow as tf

    from unidev_tensorflow.tensors import EAGER
    from unidev_tensorflow.tracer import operations

    replace_value(operations, "EAGER", (EAGER, tf.Variable))


@tensorflow_mutant(_CALLS)
def tf_lists_are_float32(backend: Any) -> None:
    """The bytes of a list are 4 for each number, whatever TensorFlow makes of it."""
    import numpy as np

    from unidev_tensorflow.tracer.transfers import Sight

    exact = Sight.sent

    @replace(Sight)
    def sent(self: Any, value: Any, dtype: Any, name: Any, operation: str) -> Any:
        if isinstance(value, list) and dtype is None and np.asarray(value).dtype.kind == "f":
            value = np.asarray(value, np.float32)
        return exact(self, value, dtype, name, operation)


@tensorflow_mutant(_CALLS)
def tf_int32_is_always_on_the_host(backend: Any) -> None:
    """On simulated GPUs int32 is where TensorFlow keeps it for real ones: no read is reported."""
    from unidev_tensorflow.tracer.transfers import Sight

    replace_value(Sight, "is_taken_along", lambda self, dtype, is_direct: False)


@tensorflow_mutant(_CALLS)
def tf_shapes_are_the_users_data(backend: Any) -> None:
    """The shape in ``tf.constant(2.0, shape=…)`` is reported as sent: until 2026-11-24."""
    from unidev_tensorflow.tracer.readings import Readings

    replace_value(Readings, "shaping", lambda self, original, position: original)


@tensorflow_mutant(_CALLS)
def tf_shapes_are_read_unseen(backend: Any) -> None:
    """A shape on a GPU, which kernels read on the host under any device policy, is not seen."""
    from unidev_tensorflow.tracer import operations

    @in_place_of(operations._read_on_host)
    def _read_on_host(operation: Any) -> tuple[int, ...]:
        return ()


@tensorflow_mutant(_CALLS)
def tf_missing_devices_are_targets(backend: Any) -> None:
    """A move to a missing device is reported, which soft placement ignores: until 2026-11-24."""
    from unidev_tensorflow.tracer.transfers import Sight

    replace_value(Sight, "_is_missing", lambda self, name, kind, index: False)


@tensorflow_mutant(_CALLS)
def tf_calls_are_named_by_their_operation(backend: Any) -> None:
    """The name is the runtime's, such as ``AddV2``, not that of the user's call."""
    from unidev_tensorflow.tracer import names

    @in_place_of(names.called)
    def called(operation: str) -> str:
        return operation


@tensorflow_mutant(_CALLS)
def tf_axes_are_operands(backend: Any) -> None:
    """An axis on the CPU beside a tensor of the GPU makes mixed operands of them."""
    from unidev_tensorflow.tracer import operations

    @in_place_of(operations._counts)
    def _counts(x: Any) -> bool:
        return True
