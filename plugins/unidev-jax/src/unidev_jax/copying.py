"""Copies that are copies, and values from the host: JAX's own calls alias and narrow."""

from __future__ import annotations

import contextlib
import re
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from numpy import asarray  # itself: a trace replaces the name in NumPy

from unidev_jax.arrays import TRACER, is_tracing
from unidev_jax.framework import jax, jnp

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from unidev.contract import Array

NARROW = (
    "bool", "int8", "int16", "int32", "uint8", "uint16", "uint32",
    "float16", "bfloat16", "float32", "complex64",
)  # fmt: skip
WIDE = ("int64", "uint64", "float64", "complex128")
"""Dtypes that JAX makes only where its 64 bits are enabled."""
DTYPES = {name: jnp.dtype(name) for name in NARROW + WIDE}
_WIDE = frozenset(jnp.dtype(name) for name in WIDE)
_SAME_ON_HOST = frozenset(DTYPES.values())
"""Dtypes of which JAX and NumPy have the same bytes: not int4, nor random keys."""
_SCALAR = type(jnp.float32)
_NUMBERED = re.compile(r"[a-z]+[0-9]\w*")
_NOTHING = contextlib.nullcontext()
_xla: Any = getattr(import_module("jax._src.lib"), "xla_client", None)
_put: Any = getattr(_xla, "batched_device_put", None)
"""What ``jax.device_put`` calls in the end, and not public: None if this JAX has it elsewhere.

``device_put`` leaves copies between CPU devices to another thread. Waiting for it takes longer than
all else in a copy of a few bytes, on a busy machine ten times as long, and a process made by fork
has no such thread.
"""
_WAITED_FOR_BYTES = 1 << 20
"""From here on, ``device_put`` is as fast or faster, and the waiting does not count."""
_ALLOWED = (None, "allow")
"""Settings of ``jax.transfer_guard`` that have no effect."""
_AT_ONCE: Any = getattr(_xla, "HostBufferSemantics", None) and (
    _xla.HostBufferSemantics.IMMUTABLE_ONLY_DURING_CALL
)


def dtype_of(spec: object) -> Any:
    """The dtype behind ``jnp.float32``, which looks like a class, or one of its name; or None.

    So ``jnp.int4``, ``ml_dtypes.int4``, their dtype and ``"int4"``, which NumPy does not have.
    """
    if isinstance(spec, _SCALAR):
        return spec.dtype
    name = spec if isinstance(spec, str) else getattr(spec, "name", getattr(spec, "__name__", None))
    if not isinstance(name, str) or not _NUMBERED.fullmatch(name):
        return None
    scalar = getattr(jnp, name, None)
    return scalar.dtype if isinstance(scalar, _SCALAR) else None


def enable_x64(is_enabled: bool) -> AbstractContextManager[Any]:
    """JAX's block in which this thread has 64 bits, or not."""
    made: AbstractContextManager[Any] = jax.enable_x64(is_enabled)
    return made


def wide(dtype: Any) -> AbstractContextManager[Any]:
    """Where JAX may make ``dtype``: without this, it narrows 64 bits to 32, with a warning."""
    return enable_x64(True) if dtype in _WIDE else _NOTHING


def copied(x: Any, native: Any) -> Any:
    """A copy of ``x`` in new memory on JAX's device ``native``, committed to it.

    Without ``may_alias=False``, JAX 0.10 returns a new array on the same memory. Of a traced array,
    a copy that the compiled program makes there; JAX raises if the program runs elsewhere, which it
    does not for a device that is no sharding.
    """
    with wide(x.dtype):
        is_direct = not isinstance(x, TRACER) and is_on_host(x) and _goes_at_once(x.dtype, native)
        # NumPy reads a dtype that is not its own by `__array__`, and a trace sees a transfer.
        if not is_direct or x.nbytes > _WAITED_FOR_BYTES or x.dtype.isbuiltin != 1:
            return jax.device_put(_apart(x), only_on(native), may_alias=False)
        return _put_at_once(x.aval, asarray(x), native)


def from_host(array: Array, native: Any) -> Any:
    """``array`` in new memory on JAX's device ``native``; has arrived.

    JAX 0.10 reads the array later, unless it is waited for. On a CPU, it keeps the memory of an
    array that is aligned to 64 bytes, ``may_alias=False`` or not: then the values are copied again,
    from an array of JAX's. In a function that is traced, it becomes a constant of the program,
    which then runs on ``native``, or JAX raises.
    """
    with wide(array.dtype):
        if _goes_at_once(array.dtype, native):
            return _put_at_once(jax.typeof(array), array, native)
        made = jax.device_put(array, only_on(native))
        if isinstance(made, TRACER):
            return made
        made.block_until_ready()
        if native.platform != "cpu" or not array.size:
            return made
        if made.unsafe_buffer_pointer() != array.ctypes.data:
            return made
        return jax.block_until_ready(jax.device_put(made, native, may_alias=False))


def _apart(x: Any) -> Any:
    """``x``, or one of its replicas: JAX would return the one on the device as it is."""
    is_replicated = not isinstance(x, TRACER) and len(x.sharding.device_set) > 1
    return x.addressable_shards[0].data if is_replicated and x.is_fully_replicated else x


@cache
def only_on(native: Any) -> Any:
    """The sharding of arrays on JAX's device ``native`` alone."""
    return jax.sharding.SingleDeviceSharding(native)


def is_on_host(x: Any) -> bool:
    """Whether ``x`` is in a CPU's own memory, which NumPy reads."""
    sharding = x.sharding
    return type(sharding) is jax.sharding.SingleDeviceSharding and _is_host_memory(sharding)


def _put_at_once(aval: Any, values: Array, native: Any) -> Any:
    """``values`` in new memory on ``native``, a CPU; has arrived."""
    return _put(aval, only_on(native), [values], [native], True, False, _AT_ONCE)


def _goes_at_once(dtype: Any, native: Any) -> bool:
    """Whether ``_put_at_once`` may take values of ``dtype`` to ``native``.

    ``device_put`` remains for a function that is traced, which records it, and for the guards of
    JAX's transfers, which count it as explicit.
    """
    config = jax.config
    return (
        _AT_ONCE is not None
        and _put is not None
        and native.platform == "cpu"
        and dtype in _SAME_ON_HOST
        and config.jax_transfer_guard_host_to_device in _ALLOWED
        and config.jax_transfer_guard_device_to_device in _ALLOWED
        and not is_tracing()
    )


@cache
def _is_host_memory(sharding: Any) -> bool:
    (device,) = sharding.device_set
    own = device.default_memory().kind
    return device.platform == "cpu" and sharding.memory_kind in (None, own)
