"""What TensorFlow moves between devices, seen where its Python calls its runtime.

Every eager operation goes through one of three functions of ``pywrap_tfe``, every reading through
a method of ``EagerTensor``. These are replaced while a scope is open in any thread; in threads that
have none, the replacements call the originals. Op callbacks would see the same, but only once all
has moved, when a guard comes too late.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from unidev.contract import Tracer
from unidev_tensorflow.tracer.patches import TensorFlowPatches
from unidev_tensorflow.tracer.recording import TensorFlowRecording

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from unidev.contract import Backend, PlannedTransfer

_BLIND_SPOTS = {
    "what moves inside a tf.function, and so in Keras's fit, evaluate and predict": (
        "its graph runs in C++, and brings its arguments where it needs them"
    ),
    "tf.data": "its threads, and prefetch_to_device, copy in C++",
    "tf.distribute, DTensor and remote devices": (
        "replicas run in threads of their own, and collectives in C++"
    ),
    "Python's and NumPy's single numbers among operands (x + 1.0)": (
        "TensorFlow sends them once, and keeps them there"
    ),
    "strings; and int32 that goes along with an operation": (
        "TensorFlow has them in the host's memory, also on GPUs: as a rule, nothing moves"
    ),
    "NumPy's ufuncs and numbers (np.exp(x), np.float32(x)), memoryview(x), C code that takes the "
    "buffer": (
        "Python shows no call that takes it; numpy.asarray(x), numpy.sum(x) and the like are seen"
    ),
    "from numpy import asarray, and methods such as x.numpy, taken before the trace": (
        "functions are replaced by their names in numpy alone, and methods in their class"
    ),
    "an operand that was sent to the same device before the trace began": (
        "it is reported, though TensorFlow keeps what it has sent beside the tensor; within a "
        "trace it is reported once. What is read again is reported again"
    ),
    "other frameworks that share memory": "DLPack hands an address over; what reads it is theirs",
}


class TensorFlowTracer(Tracer):
    """By functions in the place of TensorFlow's own."""

    blind_spots = _BLIND_SPOTS

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self.recording = TensorFlowRecording()
        self.patches = TensorFlowPatches(backend, self.recording)

    @contextmanager
    def watch(
        self, begin: Callable[[PlannedTransfer], Any], end: Callable[[Any], None]
    ) -> Iterator[None]:
        """See ``Tracer``; where there is one device, nothing moves, and nothing is replaced."""
        if sum(map(self.backend.device_count, self.backend.kinds)) < 2:
            yield
            return
        with self.patches, self.recording.scope(begin, end):
            yield
