"""TensorFlow's transfers between devices, seen where its Python calls its runtime.

Every eager operation goes through one of three functions of ``pywrap_tfe``, every read through
a method of ``EagerTensor``. These are replaced while a scope is open in any thread; in threads
without a scope, the replacements call the originals. Op callbacks would see the same, but only
after everything has moved, too late for a guard.
"""

from __future__ import annotations

from contextlib import nullcontext
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import tensorflow as tf  # type: ignore[import-untyped]

from unidev.contract import Tracer
from unidev_tensorflow.tracer.patches import TensorFlowPatches
from unidev_tensorflow.tracer.recording import TensorFlowRecording

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from unidev.contract import Backend, PlannedTransfer

_BLIND_SPOTS = {
    "transfers inside a tf.function, and so in Keras's fit, evaluate and predict": (
        "its graph runs in C++, and moves its arguments where it needs them"
    ),
    "tf.data": "its threads, and prefetch_to_device, copy in C++",
    "tf.distribute, DTensor and remote devices": (
        "replicas run in threads of their own, and collectives in C++"
    ),
    "single Python and NumPy numbers among operands (x + 1.0)": (
        "TensorFlow sends them once, and keeps them there"
    ),
    "strings; and int32 that an operation moves along": (
        "TensorFlow keeps them in the host's memory, even for GPUs: usually nothing moves"
    ),
    "NumPy's ufuncs and numbers (np.exp(x), np.float32(x)), memoryview(x), C code that takes the "
    "buffer": (
        "Python shows no call that takes it; numpy.asarray(x), numpy.sum(x) and the like are seen"
    ),
    "from numpy import asarray, and methods such as x.numpy, taken before the trace": (
        "functions are replaced by their names in numpy alone, and methods in their class"
    ),
    "an operand that was sent to the same device before the trace began": (
        "it is reported, although TensorFlow caches the copy with the tensor; within a "
        "trace it is reported once. A repeated read is reported each time"
    ),
    "other frameworks that share memory": "DLPack passes an address; the other framework reads it",
}


class TensorFlowTracer(Tracer):
    """Replaces TensorFlow's own functions."""

    blind_spots = _BLIND_SPOTS
    loops = frozenset({  # Keras's
        "fit", "evaluate", "predict", "train_on_batch", "test_on_batch", "predict_on_batch",
    })  # fmt: skip
    gpu_queries = MappingProxyType(
        {
            "tf.config.list_physical_devices": tf.config,
            "tf.config.list_logical_devices": tf.config,
            "tf.config.experimental.list_physical_devices": tf.config.experimental,
            "tf.test.is_gpu_available": tf.test,
            "tf.test.gpu_device_name": tf.test,
        }
    )

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self.recording = TensorFlowRecording()
        self.patches = TensorFlowPatches(backend, self.recording)

    def watch(
        self, begin: Callable[[PlannedTransfer], Any], end: Callable[[Any], None]
    ) -> AbstractContextManager[None]:
        """See ``Tracer``; with a single device nothing moves, and nothing is replaced."""
        if sum(map(self.backend.device_count, self.backend.kinds)) < 2:
            return nullcontext()
        return super().watch(begin, end)
