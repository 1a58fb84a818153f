"""TensorFlow's devices and tensors, in unidev's terms."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf  # type: ignore[import-untyped]

from unidev.contract import Backend, part, unsupported
from unidev.errors import UnsupportedDtypeError, UnsupportedOperation
from unidev_tensorflow.containers import CONTAINERS, LOADERS, batches_of, opened
from unidev_tensorflow.copying import check_placed, copy_plain
from unidev_tensorflow.deep_copy.eager import (
    DTYPES,
    NOT_INITIALIZED,
    eager_constant,
    eager_copies,
    eager_copy,
)
from unidev_tensorflow.deep_copy.public import copied, register_gradient
from unidev_tensorflow.devices import LocalDevices
from unidev_tensorflow.memory.extents import extents, host_array
from unidev_tensorflow.scopes import NativeScope
from unidev_tensorflow.tensors import (
    COMPOSITES,
    DISTRIBUTED,
    EAGER,
    TENSORS,
    is_keras_variable,
    is_symbolic,
    keras_models,
    keras_optimizers,
    keras_tensors,
    parts,
    symbolic,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from unidev.contract import Array, BackendSpec, Children, Device, Extent


class TensorFlowBackend(Backend):
    """Eager tensors, variables, ragged, sparse and other composite tensors; Keras's variables.

    The device is TensorFlow's ``device`` attribute: for int32 and strings on a GPU, the memory
    itself is the host's, where TensorFlow keeps it.
    """

    probe = part("unidev_tensorflow.probe:TensorFlowProbe")
    models = part("unidev_tensorflow.models:TensorFlowModels")
    autograd = part("unidev_tensorflow.autograd:TensorFlowAutograd")
    layers = part("unidev_tensorflow.nn:make_layers")
    loader = part("unidev_tensorflow.data_loaders:TensorFlowLoader")
    functions = part("unidev_tensorflow.nn:TensorFlowFunctions")
    collectives = part("unidev_tensorflow.collectives:TensorFlowCollectives")
    group_engine = part("unidev_tensorflow.group.engine:TensorFlowEngine")
    interop = part("unidev_tensorflow.memory.interop:TensorFlowInterop")
    tracer = part("unidev_tensorflow.tracer:TensorFlowTracer")
    installation = part("unidev_tensorflow.installation:TensorFlowInstallation")
    memory = part("unidev_tensorflow.memory:memory_of")
    peaks = part("unidev_tensorflow.memory:peaks_of")
    estimator = unsupported(
        "a Keras optimizer cannot be copied, so a trial step would change yours; "
        "`track_memory(device)` measures a real step on a GPU"
    )
    pinned = unsupported("TensorFlow has no call that puts a tensor into pinned memory")
    framework_errors = (
        tf.errors.OpError, RuntimeError, ValueError, TypeError, MemoryError,
        NotImplementedError, AttributeError, OverflowError,
    )  # fmt: skip

    containers = CONTAINERS

    out_of_memory_words = (
        "resource exhausted", "allocate memory", "failed to allocate", NOT_INITIALIZED,
    )  # fmt: skip
    out_of_memory_numbers = ("OOM when allocating tensor with shape[{shape}] and type {dtype}",)

    def __init__(self, spec: BackendSpec, simulated_count: int) -> None:
        super().__init__(spec, simulated_count)
        self._devices = LocalDevices(self)
        self._by_name = self._devices.by_name
        register_gradient()

    @property
    def tensor_types(self) -> tuple[type, ...]:
        """Includes Keras's own, once Keras is imported."""
        return (*TENSORS, *keras_tensors())

    @property
    def model_types(self) -> tuple[type, ...]:  # type: ignore[override]  # read-only is enough here
        """``tf.Module``, and Keras's layers once Keras is imported."""
        return (tf.Module, *keras_models())

    @property
    def optimizer_types(self) -> tuple[type, ...]:  # type: ignore[override]  # read-only is enough here
        """Keras's, once Keras is imported."""
        return keras_optimizers()

    @cached_property
    def dtypes(self) -> Mapping[str, Any]:
        """Numbers; quantized and 8-bit floating-point dtypes are copied, but not named here."""
        return {dtype.name: dtype for dtype in DTYPES}

    def device_count(self, kind: str) -> int:
        """The configured and visible devices; cached once TensorFlow's runtime has started."""
        return self._devices.count(kind)

    def native_device(self, kind: str, index: int) -> Any:
        """A ``tf.DeviceSpec``, which ``tf.device`` accepts both eagerly and in a graph."""
        return self._devices.spec(kind, index)

    def native_name(self, kind: str, index: int) -> str:
        """A name such as ``/device:GPU:1``."""
        return str(self._devices.spec(kind, index).to_string())

    def hardware_name(self, kind: str, index: int) -> str:
        """The driver's name of a GPU."""
        if kind == "gpu" and self.simulated_count:
            return f"simulated GPU {index}"
        physical = self._devices.physical(index) if kind == "gpu" else None
        if physical is None:
            return self.native_name(kind, index)
        details = tf.config.experimental.get_device_details(physical)
        return str(details.get("device_name") or self.native_name(kind, index))

    def hardware_index(self, kind: str, index: int) -> int | None:
        """CUDA's number of a GPU, which TensorFlow renumbers if some are hidden or split."""
        return self._devices.hardware_index(index) if kind == "gpu" else index

    def batch_iterator(self, batches: Iterable[Any]) -> Iterator[Any]:
        """For a dataset, one whose end is a value: as an error it may reach another thread."""
        return batches_of(batches) if isinstance(batches, LOADERS) else iter(batches)

    def opened(self, x: object) -> Children | None:
        """By the protocol of ``tf.nest``."""
        return opened(x)

    def full_name(self, device: Device) -> str:
        """Such as ``/job:localhost/replica:0/task:0/device:GPU:1``; starts the runtime."""
        return self._devices.full_name(device)

    def parse_native(self, spec: object) -> tuple[str, int] | None:
        """``/GPU:1`` and its longer forms, ``tf.DeviceSpec``, logical and physical devices."""
        return self._devices.parse(spec)

    def device_of(self, x: Any) -> Device:
        """From TensorFlow's ``device`` attribute."""
        try:
            if type(x) is EAGER:  # for other types it may be the first of several
                return self._by_name[x.device]
        except KeyError:
            pass  # left first, so that a later error does not show this one as its cause
        return self._find_device(x)

    def copy_to(self, x: Any, device: Device, non_blocking: bool) -> Any:  # noqa: ARG002
        """``DeepCopy`` or one transfer, recorded by tapes; of a variable, its value in a tensor."""
        devices = self._devices
        name = devices.full_names.get(device)
        if name is not None and type(x) is EAGER and x.device in self._by_name:
            made = eager_copy(x, name, devices.copied_by_name[name])
            if made is not None:
                return made
        if isinstance(x, COMPOSITES):
            return tf.nest.map_structure(
                lambda part: self.copy_to(part, device, False), x, expand_composites=True
            )
        return self._copy_slowly(x, device)

    def copies(self, xs: list[Any], source: str, device: Device) -> list[Any]:
        """``copy_to`` of several tensors in the memory of the device called ``source``."""
        name = self._devices.full_name(device)
        made = eager_copies(xs, source, name, self._devices.copied_by_name[name])
        return [self.copy_to(x, device, False) for x in xs] if made is None else made

    def copy_if_there(self, x: Any, device: Device) -> Any:
        """A copy on the tensor's own device, from the device's name alone."""
        if type(x) is EAGER:
            name = x.device
            if self._by_name[name] is device:
                return eager_copy(x, name, self._devices.copied_by_name[name])
        return None

    def from_numpy(self, array: Array, dtype: Any, device: Device) -> Any:
        """``tf.constant``, which copies the array.

        If there are several CPUs, as with simulated GPUs, it allocates on the first, whatever the
        scope: then the values are copied once more.
        """
        values = array.astype(dtype.as_numpy_dtype, copy=False)
        first = self.cpu if self._devices.is_on_host(device) else device
        name = self._devices.full_name(first)
        made = eager_constant(values, name, dtype)
        if made is None or made.device != name:
            made = self._make(lambda: tf.constant(values, dtype=dtype), first)
        return made if device is first else self.copy_to(made, device, False)

    def to_numpy(self, x: Any) -> Array:
        """For strings, an array of ``bytes`` objects, as TensorFlow returns it.

        Of a distributed variable, the value that it has as a whole.
        """
        if isinstance(x, COMPOSITES):
            raise UnsupportedOperation(
                f"a NumPy array of a {type(x).__name__}",
                "it is not a rectangular array; x.to_tensor() or tf.sparse.to_dense(x) makes one",
            )
        native = x._value if is_keras_variable(x) else x
        if isinstance(native, DISTRIBUTED) and isinstance(native, tf.Variable):
            x = native.read_value()
        value = self._value(x)
        if value.dtype in (tf.resource, tf.variant):
            raise UnsupportedDtypeError(f"NumPy has no dtype {value.dtype.name}.")
        if value.dtype.is_quantized:  # TensorFlow's own `numpy` returns what stands for its numbers
            hint = "tf.dequantize(x, least, most), or tf.bitcast for the integers that are stored"
            raise UnsupportedDtypeError(f"NumPy has no dtype {value.dtype.name}: {hint}.")
        return np.array(host_array(value), order="C", copy=True)

    def empty(self, shape: tuple[int, ...], dtype: Any, device: Device) -> Any:
        """``Empty``; zeros for dtypes that it does not support."""
        if dtype not in DTYPES or any(size > _MOST_INT32 for size in shape):
            return self.zeros(shape, dtype, device)
        return self._make(lambda: tf.raw_ops.Empty(shape=shape, dtype=dtype, init=False), device)

    def zeros(self, shape: tuple[int, ...], dtype: Any, device: Device) -> Any:
        """``tf.zeros`` for strings and quantized numbers, which ``tf.fill`` refuses."""
        dtype = tf.as_dtype(dtype)
        if dtype.is_quantized or dtype == tf.string:
            return self._make(lambda: tf.zeros(shape, dtype), device)
        return self.full(shape, 0, dtype, device)

    def full(self, shape: tuple[int, ...], value: Any, dtype: Any, device: Device) -> Any:
        """``tf.fill``; 8-bit floating-point numbers, which it refuses, are cast afterwards."""
        dtype = tf.as_dtype(dtype)
        named = dtype in DTYPES
        narrow = dtype if named else tf.float32
        number = np.array(value).astype(narrow.as_numpy_dtype)

        def make() -> Any:
            # As a tensor: tf.fill reads NumPy's int64 as int32, and 2**32 as 0.
            sizes = tf.constant(shape, dtype=tf.int64)
            one = tf.constant(number, dtype=narrow)
            if narrow == tf.int32 and self.simulated_count and not is_symbolic(one):
                # On the first CPU, whatever the scope.
                one = copied(one, self._devices.full_name(device))
            filled = tf.fill(sizes, one)
            return filled if named else tf.cast(filled, dtype)

        return self._make(make, device)

    def traced(self, x: Any) -> bool:
        """A value in a graph of ``tf.function``, or one of Keras's functional models."""
        return is_symbolic(x)

    def full_like(self, x: Any, value: Any) -> Any:
        """In a graph, from the shape that ``x`` has when it runs. Keras's values have no graph."""
        if not isinstance(x, tf.Tensor):
            raise symbolic(x)
        zeros = tf.zeros_like(x)
        return zeros if value == 0 else tf.fill(tf.shape(x), tf.cast(value, x.dtype))

    def new_like(self, x: Any, value: int | None, device: Device) -> Any:
        """TensorFlow's own keeps ragged tensors, and refuses other composite ones but slices."""
        if isinstance(x, tf.RaggedTensor):
            return self.copy_to((tf.ones_like if value else tf.zeros_like)(x), device, False)
        if isinstance(x, COMPOSITES) and not isinstance(x, tf.IndexedSlices):
            is_sparse = isinstance(x, tf.SparseTensor)
            raise UnsupportedOperation(
                f"a tensor like a {type(x).__name__}",
                f"pass {'tf.sparse.to_dense(x)' if is_sparse else 'its tensors'}",
            )
        return None

    def is_on_host(self, device: Device) -> bool:
        """Whether the device's memory is the host's: true for CPUs and simulated GPUs."""
        return self._devices.is_on_host(device)

    def synchronize(self, device: Device) -> None:  # noqa: ARG002
        """Wait for every device, since TensorFlow cannot wait for one. Starts no runtime."""
        if not tf.executing_eagerly():
            raise UnsupportedOperation(
                "synchronize", "a graph is being traced, of which nothing has run: call it outside"
            )
        if self._devices.by_name:  # empty: no tensor was seen yet, so nothing is queued
            tf.test.experimental.sync_devices()

    def native_scope(self, device: Device) -> AbstractContextManager[Any]:
        """``tf.device``, which applies to one thread."""
        return NativeScope(self._devices.full_name(device), device)

    def extents(self, x: Any) -> Sequence[Extent]:
        """The tensor's own bytes: TensorFlow does not report which buffer a slice belongs to."""
        if isinstance(x, COMPOSITES):
            return [extent for part in parts(x) for extent in self.extents(part)]
        value = self._value(x)
        return extents(value, on_host="GPU" not in value.backing_device)

    def _copy_slowly(self, x: Any, device: Device) -> Any:
        if not is_symbolic(x) or not isinstance(x, tf.Tensor):
            self._find_device(x)  # raises for values that cannot be copied
        value = x.value if is_keras_variable(x) else x
        return copy_plain(value, device, self._devices)

    def _make(self, make: Callable[[], Any], device: Device) -> Any:
        """The result of ``make`` on ``device``, copied there if TensorFlow put it on the host.

        TensorFlow keeps int32 constants on the host, and lacks GPU kernels for rarer dtypes.
        """
        name = self._devices.full_name(device)
        with tf.device(name):
            made = make()
        if not is_symbolic(made) and made.device != name:
            made = self.copy_to(made, device, False)
            check_placed(made, name, device)
        return made

    def _value(self, x: Any) -> Any:
        """The eager tensor ``x``, or the one that holds the value of the variable ``x``."""
        self._find_device(x)
        value = x.value if is_keras_variable(x) else x
        if isinstance(value, tf.Variable):
            value = value.value()
        if not isinstance(value, EAGER):
            raise symbolic(x)
        return value

    def _find_device(self, x: Any) -> Device:
        native = x._value if is_keras_variable(x) else x
        if isinstance(native, DISTRIBUTED):
            self._devices.refresh()
            names = [self._by_name.get(each.device, each.device) for each in native.values]
            raise UnsupportedOperation(
                f"the device of a {type(native).__name__}",
                f"it has a component on each of several devices ({', '.join(map(str, names))}); "
                "take them one by one with strategy.experimental_local_results(x)",
            )
        if is_symbolic(x):
            raise symbolic(x)
        if isinstance(x, COMPOSITES):
            return self._common_device(x)
        name = x.value.device if is_keras_variable(x) else x.device
        if name not in self._by_name:
            self._devices.refresh()
        device = self._by_name.get(name)
        if device is None:
            raise UnsupportedOperation(
                f"the device {name or 'that TensorFlow does not report'}",
                "it does not belong to this process: a DTensor is spread over the devices of its "
                "mesh, and a remote tensor is on another machine",
            )
        return device

    def _common_device(self, x: Any) -> Device:
        found = {self.device_of(part) for part in parts(x)}
        if len(found) != 1:
            listed = ", ".join(sorted(map(str, found))) or "none"
            raise UnsupportedOperation(
                f"the device of a {type(x).__name__}",
                f"its parts are on different devices: {listed}",
            )
        return found.pop()


_MOST_INT32 = 2**31 - 1
"""The largest size that ``Empty`` accepts."""
