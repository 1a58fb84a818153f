"""JAX's backend, each time without one precaution of its plugin: arrays, devices, tracer."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np

from mutants.mutant import JAX, mutant, replace_value
from unidev.contract import Extent

jax_mutant = partial(mutant, plugin=JAX)


def _copied_by(backend: Any, copied: Any) -> None:
    """Put ``copied`` in the place of the function that both ways of copying call."""
    import unidev_jax.backend

    replace_value(unidev_jax.backend, "copied", copied)


# -- copies and new arrays -------------------------------------------------------------------------


@jax_mutant("create.from_numpy_without_aliasing")
def aligned_memory_of_numpy_is_kept(backend):
    """``may_alias=False`` is believed: JAX keeps the memory of an array aligned to 64 bytes."""
    import jax

    import unidev_jax.backend
    from unidev_jax.copying import wide

    def from_host(array, native):
        with wide(array.dtype):
            return jax.block_until_ready(jax.device_put(array, native, may_alias=False))

    replace_value(unidev_jax.backend, "from_host", from_host)


@jax_mutant("copy.disjoint_on_the_same_device", "as_in_device.differs_from_copy_to")
def a_copy_is_a_new_name_for_the_buffer(backend):
    """``jax.device_put`` without ``may_alias=False``: a new array on the same memory."""
    import jax

    from unidev_jax.copying import wide

    def copied(x, native):
        with wide(x.dtype):
            return jax.device_put(x, native)

    _copied_by(backend, copied)


@jax_mutant("copy.lands_on_the_device_asked_for")
def copies_are_uncommitted(backend):
    """``jnp.array`` of the values: committed to no device, on JAX's first."""
    import jax.numpy as jnp

    from unidev_jax.copying import wide

    def copied(x, native):
        with wide(x.dtype):
            return jnp.array(np.asarray(x))

    _copied_by(backend, copied)


@jax_mutant("host_data.get", around="to_numpy")
def values_on_the_host_are_read_only(sound, self, x):
    """``np.asarray``: JAX's own copy on the host, which it keeps, and lets nobody write to."""
    return np.asarray(x)


# -- what an array is ------------------------------------------------------------------------------


@jax_mutant("errors.tensors_elsewhere", everywhere="unidev.tensors.kinds:say_where")
def which_array_is_sharded_is_left_to_guess(say_where, error, at):
    """No path: JAX's "Received incompatible devices for jitted computation"."""


@jax_mutant("smoke.probe_calibrated", around="extents")
def a_buffer_has_the_address_of_its_object(sound, self, x):
    """``id(x)`` for an address: two arrays on one buffer share nothing."""
    return [Extent(id(x), max(x.nbytes, 1))]


@jax_mutant("copy.strings_ragged_sparse")
def random_keys_are_numbers(backend):
    """A copy of ``jax.random.key`` by its numbers is no key."""
    import jax
    import jax.numpy as jnp

    import unidev_jax.backend

    exact = unidev_jax.backend.copied

    def copied(x, native):
        is_key = jnp.issubdtype(x.dtype, jax.dtypes.prng_key)
        return exact(jax.random.key_data(x) if is_key else x, native)

    _copied_by(backend, copied)


@jax_mutant("dtypes.spellings")
def scalar_types_are_no_dtypes(backend):
    """``jnp.float32`` is a class to its users, and none to ``isinstance``."""
    import unidev_jax.backend

    replace_value(unidev_jax.backend, "dtype_of", lambda spec: None)


# -- devices and settings --------------------------------------------------------------------------


@jax_mutant("create.scope_is_the_frameworks_too", around="native_scope")
def a_scope_is_not_jaxs(sound, self, device):
    """``with device:`` sets no ``jax.default_device``."""
    return nullcontext()


@jax_mutant("smoke.globals_restored")
def sixty_four_bits_stay_enabled(backend):
    """``jax.config.update("jax_enable_x64", True)``, so that the program's arrays are wide, too."""
    import jax

    import unidev_jax.backend
    from mutants.mutant import when_restored

    before = jax.config.jax_enable_x64

    def wide(dtype):
        jax.config.update("jax_enable_x64", True)
        return nullcontext()

    when_restored(lambda: jax.config.update("jax_enable_x64", before))
    replace_value(unidev_jax.backend, "wide", wide)
    exact = unidev_jax.backend.copied
    _copied_by(backend, lambda x, native: (wide(x.dtype), exact(x, native))[1])


@jax_mutant("devices.aliases_mean_one_device", around="parse_native")
def simulated_devices_are_off_by_one(exact, self, spec):
    """``CpuDevice(id=1)`` is read as ``gpu:1``, and is the simulated ``gpu:0``."""
    found = exact(self, spec)
    if isinstance(spec, str) and found is not None and found[0] == "gpu":
        return "gpu", found[1] + 1
    return found


# -- the tracer ------------------------------------------------------------------------------------


@jax_mutant("tracer.each_call_of_the_framework")
def numpys_operands_move_unseen(backend):
    """Only JAX's arrays count as operands: ``x + np.ones(3)`` moves nothing."""
    from unidev_jax.tracer import transfers

    exact = transfers._split

    def split(leaves):
        found = exact(leaves)
        return None if found is None else (found[0], [])

    replace_value(transfers, "_split", split)


@jax_mutant(
    "tracer.each_call_of_the_framework",
    "tracer.read_is_reported_once",
    around=".tracer.transfers:Transfers.read",
)
def reads_are_those_of_item_alone(exact, self, x, operation):
    """``np.asarray`` and ``float`` read without a word: only ``item`` is replaced."""
    return exact(self, x, operation) if operation.endswith("item") else []


# -- other frameworks ------------------------------------------------------------------------------
