"""Copies that are copies, and values from the host: JAX's own calls alias and narrow."""

from __future__ import annotations

import contextlib
import re
from importlib import import_module
from typing import TYPE_CHECKING, Any

from unidev_jax.arrays import TRACER
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
_SCALAR = type(jnp.float32)
_NUMBERED = re.compile(r"[a-z]+[0-9]\w*")
_enable_x64 = (
    jax.enable_x64
    if hasattr(jax, "enable_x64")
    else import_module("jax.experimental").enable_x64  # before JAX 0.8
)
_NOTHING = contextlib.nullcontext()


def dtype_of(spec: object) -> Any:
    """The dtype behind ``jnp.float32``, a class that is no class, or one of its name; or None.

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
    made: AbstractContextManager[Any] = _enable_x64(is_enabled)
    return made


def wide(dtype: Any) -> AbstractContextManager[Any]:
    """Where JAX may make ``dtype``: without this, it narrows 64 bits to 32, with a warning."""
    return enable_x64(True) if dtype in _WIDE else _NOTHING


def copied(x: Any, native: Any) -> Any:
    """A copy of ``x`` in new memory on JAX's device ``native``, committed to it.

    Without ``may_alias=False``, JAX 0.10 returns a new array on the same memory.
    """
    with wide(x.dtype):
        return jax.device_put(x, native, may_alias=False)


def from_host(array: Array, native: Any) -> Any:
    """``array`` in new memory on JAX's device ``native``; has arrived.

    JAX 0.10 reads the array later, unless it is waited for. On a CPU, it keeps the memory of an
    array that is aligned to 64 bytes, ``may_alias=False`` or not: then the values are copied again,
    from an array of JAX's. In a function that is traced, it becomes a constant of the program.
    """
    with wide(array.dtype):
        made = jax.device_put(array, native)
        if isinstance(made, TRACER):
            return made
        made.block_until_ready()
        if native.platform != "cpu" or not array.size:
            return made
        if made.unsafe_buffer_pointer() != array.ctypes.data:
            return made
        return jax.block_until_ready(jax.device_put(made, native, may_alias=False))
