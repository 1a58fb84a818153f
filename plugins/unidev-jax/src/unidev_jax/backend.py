"""JAX's devices and arrays, in unidev's terms."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import numpy as np

from unidev.contract import Backend, Extent, part, unsupported
from unidev.errors import UnsupportedDtypeError, UnsupportedOperation
from unidev_jax.arrays import (
    TRACER,
    check_alive,
    check_whole,
    has_values,
    is_compiling,
    key_numbers,
    only_device,
    value_of,
)
from unidev_jax.containers import CONTAINERS, opened
from unidev_jax.copying import DTYPES, copied, dtype_of, enable_x64, from_host, only_on, wide
from unidev_jax.devices import LocalDevices
from unidev_jax.framework import jax, jnp
from unidev_jax.variables import keras_optimizers, model_types, plain, variable_types

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager

    from unidev.contract import Array, BackendSpec, Children, Device

_FILLED_ON_HOST_BYTES = 4096
"""To fill an array, JAX compiles a program for each shape, in the time of copying 1 GB or so."""
_FILLED_ON_CPU_BYTES = 1 << 20
"""The same for devices whose memory is the host's."""


class JaxBackend(Backend):
    """JAX's arrays on one device: committed, so that its operations compute there."""

    probe = part("unidev_jax.probe:JaxProbe")
    models = part("unidev_jax.models:make_models")
    autograd = part("unidev_jax.autograd:JaxAutograd")
    layers = part("unidev_jax.nn:make_layers")
    functions = part("unidev_jax.nn:JaxFunctions")
    collectives = part("unidev_jax.collectives:JaxCollectives")
    group_engine = part("unidev_jax.group.engine:JaxEngine")
    interop = part("unidev_jax.memory.interop:JaxInterop")
    installation = part("unidev_jax.installation:JaxInstallation")
    memory = part("unidev_jax.memory:memory_of")
    tracer = part("unidev_jax.tracer:JaxTracer")
    makers = (jnp,)
    peaks = unsupported(
        "JAX counts a peak since the process began, and cannot restart it",
        "https://docs.jax.dev/en/latest/device_memory_profiling.html",
    )
    pinned = unsupported(
        "JAX's pinned memory belongs to a GPU, not to the CPU: put an array into it with a "
        "sharding whose memory_kind is 'pinned_host'",
        "https://docs.jax.dev/en/latest/notebooks/host-offloading.html",
    )
    containers = CONTAINERS
    framework_errors = (RuntimeError, ValueError, TypeError, MemoryError, OverflowError)
    out_of_memory_words = ("resource exhausted",)
    out_of_memory_numbers = (  # of an executable, of a buffer on the CPU and on a GPU
        "trying to allocate {requested}", "memory allocating {requested}",
        "allocate request for {requested}",
    )  # fmt: skip

    def __init__(self, spec: BackendSpec, simulated_count: int) -> None:
        super().__init__(spec, simulated_count)
        self._devices = LocalDevices(self)
        self._by_sharding: dict[Any, Device] = {}
        """Filled on first use: the meaning of a sharding never changes."""

    @property
    def tensor_types(self) -> tuple[type, ...]:
        """Tracers too, which are arrays to ``isinstance`` and not to ``issubclass``."""
        return (jax.Array, TRACER, *variable_types())

    @property
    def model_types(self) -> tuple[type, ...]:  # type: ignore[override]  # read-only is enough here
        """Flax's modules and optimizers, and Keras's layers: no trees, though JAX opens them."""
        return model_types()

    @property
    def optimizer_types(self) -> tuple[type, ...]:  # type: ignore[override]  # read-only is enough
        """Keras's; Flax's are modules."""
        return keras_optimizers()

    @property
    def dtypes(self) -> Mapping[str, Any]:
        """Those of NumPy's and bfloat16; arrays of narrower numbers are copied, too."""
        return DTYPES

    @property
    def default_integer(self) -> str:  # type: ignore[override]  # read-only is enough here
        """JAX's: int64 where 64 bits are enabled, int32 elsewhere."""
        return "int64" if jax.config.jax_enable_x64 else "int32"

    def parse_dtype(self, spec: object) -> Any:
        """Also ``jnp.float32``, and what NumPy lacks: ``jnp.int4``, ``"float8_e4m3fn"``."""
        return dtype_of(spec) or super().parse_dtype(spec)

    def opened(self, x: object) -> Children | None:
        """By JAX's registry of pytrees."""
        return opened(x)

    def device_count(self, kind: str) -> int:
        """From the settings and the drivers, where JAX's runtime has not started yet."""
        return self._devices.count(kind)

    def native_device(self, kind: str, index: int) -> Any:
        """A ``jax.Device``."""
        return self._devices.native(kind, index)

    def native_name(self, kind: str, index: int) -> str:
        """``cuda:1``; ``CpuDevice(id=2)`` for a simulated ``gpu:1``."""
        return self._devices.name(kind, index)

    def parse_native(self, spec: object) -> tuple[str, int] | None:
        """A name as above, a ``jax.Device``, or a ``SingleDeviceSharding``."""
        return self._devices.parse(spec)

    def hardware_name(self, kind: str, index: int) -> str:
        """JAX's ``device_kind``, such as ``NVIDIA H200``."""
        if kind == "gpu" and self.simulated_count:
            return f"simulated GPU {index}"
        return str(self.native_device(kind, index).device_kind)

    def hardware_index(self, kind: str, index: int) -> int | None:
        """CUDA's number of a GPU, of which ``jax_cuda_visible_devices`` may hide some."""
        if kind == "cpu" or self.simulated_count:
            return index
        number = self.native_device(kind, index).local_hardware_id
        return None if number is None else int(number)

    def device_of(self, x: Any) -> Device:
        """From the array's sharding."""
        try:
            device = self._by_sharding[x.sharding]
            if not x.is_deleted():
                return device
        except (KeyError, AttributeError):
            pass  # left first, so that a later error does not show this one as its cause
        return self._find_device(x)

    def is_bound(self, x: Any, device: Device) -> bool:
        """Not if it is uncommitted: JAX then computes where the other operands are."""
        try:
            if self._by_sharding[x.sharding] is device and x.committed and not x.is_deleted():
                return True
        except (KeyError, AttributeError, jax.errors.ConcretizationTypeError):
            pass
        value = value_of(x)  # raises if it is traced
        with contextlib.suppress(UnsupportedOperation):  # sharded: `copy_to` brings it there
            return self.device_of(value) is device and bool(value.committed)
        return False

    def traced(self, x: Any) -> bool:
        """Inside ``jit``, ``vmap`` and the like; not in ``grad`` alone, where values are known."""
        return isinstance(x, TRACER) and not has_values(x)

    def full_like(self, x: Any, value: Any) -> Any:
        """``jnp.full_like``; in a compiled function it is where ``x`` is, on which it depends."""
        check_alive(x)
        with wide(x.dtype):
            made = jnp.full_like(x, value)
            if isinstance(x, TRACER):
                made = jax.lax.optimization_barrier((jax.lax.stop_gradient(x), made))[1]
            return made

    def new_like(self, x: Any, value: int | None, device: Device) -> Any:
        """Of a random key or a weakly typed array, such a one; else from shape and dtype."""
        x = plain(x)
        if isinstance(x.dtype, np.dtype) and not x.weak_type:
            return None
        return self.copy_to(self.full_like(x, value or 0), device, False)

    def copy_to(self, x: Any, device: Device, non_blocking: bool) -> Any:
        """``jax.device_put``, which autograd records; of a sharded array, the whole."""
        x = plain(x)
        if isinstance(x, TRACER):
            check_alive(x)
            return copied(x, device.native)
        check_whole(x)
        with contextlib.suppress(UnsupportedOperation):  # sharded
            self.device_of(x)  # so that `copy_if_there` knows it
        made = copied(x, device.native)
        # On a CPU, nothing that reads the memory itself, such as DLPack, waits for JAX.
        if not non_blocking or device.native.platform == "cpu":
            made.block_until_ready()
        return made

    def copy_if_there(self, x: Any, device: Device) -> Any:
        """A copy on the array's own device, from its sharding alone; JAX refuses a deleted one."""
        if self._by_sharding[x.sharding] is device:
            return copied(plain(x), device.native).block_until_ready()
        return None

    def from_numpy(self, array: Array, dtype: Any, device: Device) -> Any:
        """``jax.device_put``, once JAX has no more need of ``array``."""
        with np.errstate(over="ignore", invalid="ignore"):  # to infinity, as the values are rounded
            values = array.astype(dtype, copy=False)
        return from_host(values, device.native)

    def to_numpy(self, x: Any) -> Array:
        """With the dtypes of ``ml_dtypes`` for those that NumPy lacks; also of a sharded array.

        Raises:
            UnsupportedDtypeError: ``x`` is of random keys.
            UnsupportedOperation: ``x`` is traced, or part of it is another process's.
        """
        value = value_of(x)
        check_alive(value)
        if not isinstance(value.dtype, np.dtype):
            raise UnsupportedDtypeError(
                f"NumPy has no dtype {value.dtype}: jax.random.key_data(x) has the numbers of a key"
            )
        check_whole(value)
        return np.array(value)

    def empty(self, shape: tuple[int, ...], dtype: Any, device: Device) -> Any:
        """Zeros, as JAX's own."""
        return self.full(shape, 0, dtype, device)

    def full(self, shape: tuple[int, ...], value: Any, dtype: Any, device: Device) -> Any:
        """``jnp.full``; small ones from the host, since that compiles a program for each shape."""
        is_cpu = device.native.platform == "cpu"  # whose memory is the host's: nothing is moved
        most_bytes = _FILLED_ON_CPU_BYTES if is_cpu else _FILLED_ON_HOST_BYTES
        if np.prod(shape, dtype=np.int64) * dtype.itemsize <= most_bytes:
            return from_host(np.full(shape, value, dtype), device.native)
        with wide(dtype):
            made = jnp.full(shape, value, dtype, device=device.native)
            if isinstance(made, TRACER):  # of which XLA knows no device yet
                return jax.device_put(made, only_on(device.native))
            return made.block_until_ready()

    def synchronize(self, device: Device) -> None:  # noqa: ARG002
        """Wait for all arrays of this process: JAX cannot wait for a device."""
        jax.block_until_ready([x for x in jax.live_arrays() if not x.is_deleted()])

    def native_scope(self, device: Device) -> AbstractContextManager[Any]:
        """``jax.default_device``, which applies to one thread.

        Raises:
            UnsupportedOperation: JAX traces a function to compile it, in which that has no effect.
        """
        if is_compiling():
            raise UnsupportedOperation(
                f"`with {device}:` inside a function that JAX compiles",
                "it runs on the device of its arguments, whatever the scope: enter the scope "
                "around the call, or pass device= to what makes tensors",
                "https://docs.jax.dev/en/latest/_autosummary/jax.default_device.html",
            )
        scope: AbstractContextManager[Any] = jax.default_device(device.native)
        return scope

    def thread_settings(self) -> AbstractContextManager[Any]:
        """Whether this thread has 64 bits enabled, as in a block of ``jax.enable_x64``."""
        return enable_x64(jax.config.jax_enable_x64)

    def check_memory(self, x: Any) -> None:
        """Whether it was deleted or donated; a sharded array may be read, too."""
        check_alive(x)

    def have_memory(self, xs: Sequence[Any]) -> bool:
        """Tracers have none yet, and need none."""
        return not any(not isinstance(x, TRACER) and x.is_deleted() for x in map(plain, xs))

    def extents(self, x: Any) -> Sequence[Extent]:
        """An extent for each part on a device of this process."""
        value = value_of(x)
        check_alive(value)
        value = key_numbers(value)
        return [
            Extent(part.data.unsafe_buffer_pointer(), part.data.nbytes)
            for part in value.addressable_shards
        ]

    def _find_device(self, x: Any) -> Device:
        value = value_of(x)
        check_alive(value)
        native = only_device(value)
        found = self._devices.parse(native)
        if found is None:
            raise UnsupportedOperation(
                f"the device {native}", "it belongs to another process of jax.distributed"
            )
        device = self.device(*found)
        with contextlib.suppress(TypeError):
            self._by_sharding[value.sharding] = device
        return device
