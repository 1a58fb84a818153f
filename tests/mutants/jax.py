"""JAX's backend, each time without one precaution of its plugin: arrays, devices, tracer."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from mutants.mutant import JAX, mutant, replace, replace_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mutants.mutant import Breaks, Mutant


def jax_mutant(*caught_by: str, profile: str = "tensor") -> Callable[[Breaks], Mutant]:
    """As ``mutant``, of JAX's backend."""
    return mutant(*caught_by, profile=profile, plugin=JAX)


def _copied_by(backend: Any, copied: Any) -> None:
    """Put ``copied`` in the place of the function that both ways of copying call."""
    import unidev_jax.backend

    replace_value(unidev_jax.backend, "copied", copied)


# -- copies and new arrays -------------------------------------------------------------------------


@jax_mutant("create.from_numpy_without_aliasing")
def aligned_memory_of_numpy_is_kept(backend: Any) -> None:
    """``may_alias=False`` is believed: JAX keeps the memory of an array aligned to 64 bytes."""
    import jax
    import unidev_jax.backend
    from unidev_jax.copying import wide

    def from_host(array: Any, native: Any) -> Any:
        with wide(array.dtype):
            return jax.block_until_ready(jax.device_put(array, native, may_alias=False))

    replace_value(unidev_jax.backend, "from_host", from_host)


@jax_mutant("copy.disjoint_on_the_same_device", "as_in_device.differs_from_copy_to")
def a_copy_is_a_new_name_for_the_buffer(backend: Any) -> None:
    """``jax.device_put`` without ``may_alias=False``: a new array on the same memory."""
    import jax
    from unidev_jax.copying import wide

    def copied(x: Any, native: Any) -> Any:
        with wide(x.dtype):
            return jax.device_put(x, native)

    _copied_by(backend, copied)


@jax_mutant("copy.float64_and_int64_not_narrowed", "copy.values_bit_exact")
def sixty_four_bits_are_lost_in_copies(backend: Any) -> None:
    """The values go through the host, and come back where JAX's 64 bits are not enabled."""
    import warnings

    import jax
    import numpy as np

    def copied(x: Any, native: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return jax.device_put(np.array(x), native)

    _copied_by(backend, copied)


@jax_mutant("copy.lands_on_the_device_asked_for")
def copies_are_uncommitted(backend: Any) -> None:
    """``jnp.array`` of the values: committed to no device, on JAX's first."""
    import jax.numpy as jnp
    import numpy as np
    from unidev_jax.copying import wide

    def copied(x: Any, native: Any) -> Any:
        with wide(x.dtype):
            return jnp.array(np.asarray(x))

    _copied_by(backend, copied)


@jax_mutant("create.on_each_device", "create.zero_d")
def new_arrays_are_on_the_default_device(backend: Any) -> None:
    """``jnp.full`` without a device."""
    import jax.numpy as jnp
    from unidev_jax.copying import wide

    @replace(backend)
    def full(self: Any, shape: Any, value: Any, dtype: Any, device: Any) -> Any:
        with wide(dtype):
            return jnp.full(shape, value, dtype)


@jax_mutant("copy.gradient_reaches_the_source")
def copies_end_the_gradient(backend: Any) -> None:
    """``stop_gradient`` of the copy: JAX has no autograd that a copy of the values could miss."""
    import jax
    import unidev_jax.backend

    exact = unidev_jax.backend.copied
    _copied_by(backend, lambda x, native: jax.lax.stop_gradient(exact(x, native)))


@jax_mutant("host_data.get")
def values_on_the_host_are_read_only(backend: Any) -> None:
    """``np.asarray``: JAX's own copy on the host, which it keeps, and lets nobody write to."""
    import numpy as np

    @replace(backend)
    def to_numpy(self: Any, x: Any) -> Any:
        return np.asarray(x)


# -- what an array is ------------------------------------------------------------------------------


@jax_mutant("errors.deleted_tensor")
def a_deleted_array_is_there(backend: Any) -> None:
    """Its sharding is, and its shape: nothing looks at ``is_deleted``."""
    import unidev_jax.backend

    replace_value(unidev_jax.backend, "check_alive", lambda x: None)


@jax_mutant("errors.tensors_elsewhere")
def a_sharded_array_is_on_its_first_device(backend: Any) -> None:
    """The first of ``x.devices()``, of however many."""
    from unidev_jax.arrays import check_alive, value_of

    @replace(backend)
    def _find_device(self: Any, x: Any) -> Any:
        value = value_of(x)
        check_alive(value)
        first = min(value.sharding.device_set, key=lambda device: device.id)
        return self.device(*self._devices.parse(first))


@jax_mutant("smoke.probe_calibrated")
def a_buffer_has_the_address_of_its_object(backend: Any) -> None:
    """``id(x)`` for an address: two arrays on one buffer share nothing."""
    from unidev.contract import Extent

    @replace(backend)
    def extents(self: Any, x: Any) -> Any:
        return [Extent(id(x), max(x.nbytes, 1))]


@jax_mutant("copy.strings_ragged_sparse")
def random_keys_are_numbers(backend: Any) -> None:
    """A copy of ``jax.random.key`` by its numbers is no key."""
    import jax
    import jax.numpy as jnp
    import unidev_jax.backend

    exact = unidev_jax.backend.copied

    def copied(x: Any, native: Any) -> Any:
        is_key = jnp.issubdtype(x.dtype, jax.dtypes.prng_key)
        return exact(jax.random.key_data(x) if is_key else x, native)

    _copied_by(backend, copied)


@jax_mutant("dtypes.spellings")
def scalar_types_are_no_dtypes(backend: Any) -> None:
    """``jnp.float32`` is a class to its users, and none to ``isinstance``."""
    import unidev_jax.backend

    replace_value(unidev_jax.backend, "dtype_of", lambda spec: None)


# -- devices and settings --------------------------------------------------------------------------


@jax_mutant("create.scope_is_the_frameworks_too")
def a_scope_is_not_jaxs(backend: Any) -> None:
    """``with device:`` sets no ``jax.default_device``."""

    @replace(backend)
    def native_scope(self: Any, device: Any) -> Any:
        return nullcontext()


@jax_mutant("threads.scope_stays_in_its_thread")
def a_scope_is_every_threads(backend: Any) -> None:
    """``jax.config.update("jax_default_device", …)``, which is the process's."""
    from contextlib import contextmanager

    import jax

    @replace(backend)
    @contextmanager
    def native_scope(self: Any, device: Any) -> Iterator[None]:
        before = jax.config.jax_default_device
        jax.config.update("jax_default_device", device.native)
        try:
            yield
        finally:
            jax.config.update("jax_default_device", before)


@jax_mutant("smoke.globals_restored")
def sixty_four_bits_stay_enabled(backend: Any) -> None:
    """``jax.config.update("jax_enable_x64", True)``, so that the program's arrays are wide, too."""
    import jax
    import unidev_jax.backend

    from mutants.mutant import when_restored

    before = jax.config.jax_enable_x64

    def wide(dtype: Any) -> Any:
        jax.config.update("jax_enable_x64", True)
        return nullcontext()

    when_restored(lambda: jax.config.update("jax_enable_x64", before))
    replace_value(unidev_jax.backend, "wide", wide)
    exact = unidev_jax.backend.copied
    _copied_by(backend, lambda x, native: (wide(x.dtype), exact(x, native))[1])


@jax_mutant("devices.aliases_mean_one_device")
def simulated_devices_are_off_by_one(backend: Any) -> None:
    """``CpuDevice(id=1)`` is read as ``gpu:1``, and is the simulated ``gpu:0``."""
    exact = backend.parse_native

    @replace(backend)
    def parse_native(self: Any, spec: object) -> Any:
        found = exact(self, spec)
        if isinstance(spec, str) and found is not None and found[0] == "gpu":
            return "gpu", found[1] + 1
        return found


# -- the tracer ------------------------------------------------------------------------------------


@jax_mutant("tracer.each_call_of_the_framework")
def numpys_operands_move_unseen(backend: Any) -> None:
    """Only JAX's arrays count as operands: ``x + np.ones(3)`` moves nothing."""
    from unidev_jax.tracer import transfers

    exact = transfers._split

    def split(leaves: Any) -> Any:
        found = exact(leaves)
        return None if found is None else (found[0], [])

    replace_value(transfers, "_split", split)


@jax_mutant("tracer.each_call_of_the_framework", "tracer.read_is_reported_once")
def reads_are_those_of_item_alone(backend: Any) -> None:
    """``np.asarray`` and ``float`` read without a word: only ``item`` is replaced."""
    from unidev_jax.tracer.transfers import Transfers

    exact = Transfers.read

    @replace(Transfers)
    def read(self: Any, x: Any, operation: str) -> Any:
        return exact(self, x, operation) if operation.endswith("item") else []


# -- other frameworks ------------------------------------------------------------------------------


@jax_mutant("converting.values", profile="interop")
def sixty_four_bits_are_lost_in_dlpack(backend: Any) -> None:
    """``from_dlpack`` where JAX's 64 bits are not enabled."""
    import jax
    from unidev_jax.memory.interop import JaxInterop

    @replace(JaxInterop)
    def adopt(self: Any, exported: Any, is_read_only: bool) -> Any:
        return jax.dlpack.from_dlpack(exported, copy=False)
