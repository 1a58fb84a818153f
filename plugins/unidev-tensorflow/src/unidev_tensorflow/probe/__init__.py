"""TensorFlow's ``Probe`` for the conformance suite, through TensorFlow's own calls."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import keras  # type: ignore[import-untyped]
import numpy as np
import tensorflow as tf  # type: ignore[import-untyped]

from unidev.contract import Probe, part, unsupported

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from unidev.contract import Array, Contained, Device, TransferExample


class TensorFlowProbe(Probe):
    """Probe of eager tensors."""

    write = unsupported("TensorFlow's tensors are immutable")
    deleted = unsupported(
        "TensorFlow keeps the memory of a tensor or a variable alive while anything refers to it"
    )

    side_stream = unsupported("TensorFlow's runtime puts work into streams of its own")

    autograd = part("unidev_tensorflow.probe.training:TensorFlowAutogradProbe")
    models = part("unidev_tensorflow.probe.training:TensorFlowModelProbe")

    def compile(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """``tf.function``."""
        compiled: Callable[..., Any] = tf.function(function)
        return compiled

    def make(self, array: Array, device: Device) -> Any:
        """``tf.constant``, which copies into memory of the first CPU, then a copy to ``device``.

        ``identity`` copies to a real GPU, but not between CPUs.
        """
        on_host = device.kind == "cpu" or device.is_simulated
        with tf.device(device.native):
            made = tf.constant(array, dtype=tf.as_dtype(array.dtype))
            return tf.raw_ops.DeepCopy(x=made) if on_host else tf.identity(made)

    def read(self, x: Any) -> bytes:
        """The bytes of ``x.numpy()``; for strings, the strings."""
        if isinstance(x, (tf.RaggedTensor, tf.SparseTensor, tf.IndexedSlices)):
            return b"".join(map(self.read, tf.nest.flatten(x, expand_composites=True)))
        array = np.asarray(x.numpy())
        if array.dtype == object:
            return repr(array.tolist()).encode()
        return array.tobytes()

    def loader(self, array: Array) -> Iterable[Any]:
        """A data set."""
        with tf.device("/device:CPU:0"):
            data: Iterable[Any] = tf.data.Dataset.from_tensor_slices(array).shuffle(len(array))
        return data

    def loaders(self, numbers: Array, size: int) -> Mapping[str, Iterable[Any]]:
        """Data sets, by ``map``."""
        with tf.device("/device:CPU:0"):
            data = tf.data.Dataset.from_tensor_slices(numbers)
            return {
                "in order": data.batch(size).map(lambda x: {"x": x}),
                "dropping": data.batch(size, drop_remainder=True).map(lambda x: {"x": x}),
                "refused: without a seed": data.shuffle(size).batch(size),
                "refused: taken of": data.batch(size).take(1),
            }

    def read_out(self, x: Any) -> object:
        """``numpy``."""
        return x.numpy()

    def same_memory(self, x: Any) -> Any:
        """``tf.identity``, which returns another object on the same buffer."""
        with tf.device(x.device):
            return tf.identity(x)

    def views(self, x: Any) -> Mapping[str, Any]:
        """Not views: TensorFlow's only views are slices of complete rows."""
        with tf.device(x.device):
            return {
                "transposed": tf.transpose(x),
                "sliced": x[1:, ::2],
                "broadcast": tf.broadcast_to(x, (3, *x.shape)),
            }

    def more_views(self, x: Any) -> Mapping[str, Any]:
        """Complete rows, which are a view where they begin at an aligned address."""
        with tf.device(x.device):
            return {"rows": x[1:-1]}

    def global_state(self) -> Mapping[str, object]:
        """Soft placement, the device policy, threads, and the state of the generators."""
        with tf.device("/device:CPU:0"):
            generator = tf.random.get_global_generator().state.numpy().tolist()
        return {
            "soft_device_placement": tf.config.get_soft_device_placement(),
            "device_policy": tf.config.experimental.get_device_policy(),
            "synchronous": tf.config.experimental.get_synchronous_execution(),
            "eager_functions": tf.config.functions_run_eagerly(),
            "default_device": tf.constant(0.0).device,
            "tf.random": generator,
            "random": random.getstate(),
        }

    def allocated_bytes(self, device: Device) -> int:
        """The device allocator's own count; for host memory, the C library's.

        TensorFlow built with oneDNN counts on CPUs too: its allocator keeps freed memory, hidden
        from the C library. Without oneDNN there is no count, and nothing is hidden.
        """
        name = f"{device.native.device_type}:{device.native.device_index}"
        try:
            return int(tf.config.experimental.get_memory_info(name)["current"])
        except ValueError:
            return super().allocated_bytes(device)

    def current(self) -> Mapping[str, object]:
        """Where this thread's new tensors go."""
        return {"device": tf.constant(0.0).device}

    def specials(self, device: Device) -> Mapping[str, Any]:
        """Variables, strings, ragged and sparse tensors, slices, dtypes that NumPy lacks."""
        with tf.device(device.native):
            small = tf.constant([1, 2, 3], dtype=tf.int8)
            return {
                "variable": tf.Variable([1.0, 2.0]),
                "variable of integers": tf.Variable([[1], [2]], dtype=tf.int64),
                "variable of Keras": keras.Variable([1.0, 2.0]),
                "without dimensions": tf.identity(tf.constant(1.5)),
                "one string": tf.identity(tf.constant("abc")),
                "slices": tf.IndexedSlices(
                    tf.ones((2, 3)), tf.constant([2, 0]), tf.constant([4, 3])
                ),
                "strings": tf.identity(tf.constant(["a", "bc"])),
                "ragged": tf.ragged.constant([[1.0, 2.0], [3.0]]),
                "sparse": tf.sparse.from_dense([[0.0, 1.0], [2.0, 0.0]]),
                "qint8": tf.bitcast(small, tf.qint8),
                "float8_e5m2": tf.cast(tf.constant([1.0, 2.0]), tf.dtypes.experimental.float8_e5m2),
            }

    def references(self, device: Device) -> Mapping[str, Any]:
        """Handles: of a variable, of a dataset, of a list of tensors."""
        with tf.device(device.native):
            return {
                "handle of a variable": tf.Variable([1.0, 2.0]).handle,
                "list of tensors": tf.raw_ops.EmptyTensorList(
                    element_shape=[2], max_num_elements=3, element_dtype=tf.float32
                ),
            }

    def containers(self, device: Device) -> Mapping[str, Contained]:
        """Arrays of tensors, and the named results of TensorFlow's own functions."""
        with tf.device(device.native):
            array = tf.TensorArray(tf.float32, size=2, clear_after_read=False)
            for index, x in enumerate((tf.ones(3), tf.zeros(3))):
                array.write(index, x).mark_used()
            return {
                "array": (array, _elements),
                "result of top_k": (tf.math.top_k(tf.constant([3.0, 1.0, 2.0]), 2), list),
            }

    def elsewhere(self) -> Mapping[str, tuple[Any, Sequence[str]]]:
        """A variable of a ``MirroredStrategy``."""
        devices = [device for kind in ("cpu", "gpu") for device in self._first_two(kind)]
        with tf.distribute.MirroredStrategy([each.native_name for each in devices]).scope():
            return {"mirrored": (tf.Variable([1.0, 2.0]), [*map(str, devices)])}

    def _first_two(self, kind: str) -> Sequence[Device]:
        count = self.backend.device_count(kind)
        return [self.backend.device(kind, index) for index in range(min(count, 2))]

    def transfers(self, gpu: Device) -> Iterable[TransferExample]:
        """Examples of TensorFlow's own calls, with the name, devices and bytes of each transfer."""
        from unidev_tensorflow.probe.transfers import transfers_of

        return transfers_of(gpu, self.make)

    def gradient(self, function: Callable[[Any], Any], array: Array, device: Device) -> Array:
        """Uses a tape."""
        x = self.make(array, device)
        with tf.GradientTape() as tape:
            tape.watch(x)
            with tf.device(device.native):
                total = tf.reduce_sum(function(x))
                if total.dtype.is_complex:
                    total = tf.math.real(total) + tf.math.imag(total)
        found = tape.gradient(total, x)
        if found is None:
            raise AssertionError("no gradient reached the source")
        gradient: Array = np.array(found)
        return gradient


def _elements(array: Any) -> list[Any]:
    """The elements of a ``tf.TensorArray``, without a call that may compute elsewhere."""
    return [*array._implementation._tensor_array]
