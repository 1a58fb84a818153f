"""What a JAX array is: one device's, spread over several, traced, or without memory."""

from __future__ import annotations

import threading
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from unidev.errors import DeletedTensorError, UnsupportedOperation
from unidev_jax.framework import jax
from unidev_jax.variables import plain

if TYPE_CHECKING:
    from unidev.contract import Array

TRACER = jax.core.Tracer
_extended: Any = import_module("jax.extend.core")
"""Public, and not imported with JAX."""
_trace_state: Any = _extended.get_opaque_trace_state


def value_of(x: Any) -> Any:
    """The array with the values of ``x``: inside ``jax.grad`` and ``jax.jvp``, the one behind it.

    Raises:
        UnsupportedOperation: ``x`` is traced, and has no values yet.
    """
    found = _behind(plain(x))
    if isinstance(found, TRACER):
        raise UnsupportedOperation(
            "looking for the device or the values of a traced array",
            "inside jax.jit, jax.vmap and the like an array has no memory and no device yet. "
            "There use unidev.copy_to, which becomes part of the program, or call this outside",
        )
    return found


def has_values(x: Any) -> bool:
    """Whether ``value_of`` finds values behind the tracer ``x``."""
    return not isinstance(_behind(x), TRACER)


def _behind(x: Any) -> Any:
    """The array that a tracer stands for, or the first tracer that stands for none.

    A tracer whose tangent is dropped is what it stands for, once for each ``grad``. This is public;
    what a tracer refers to is not.
    """
    while isinstance(x, TRACER):
        try:
            behind = jax.lax.stop_gradient(x)
            if behind is x:  # integers and keys, of which it does nothing
                jax.lax.optimization_barrier(x)
        except jax.errors.UnexpectedTracerError as error:
            raise DeletedTensorError(
                f"this array of shape {x.shape} was traced in a function that has returned, and "
                "has no values any more: return it from that function (jax.jit, jax.grad and the "
                "like), and use what the call of that returns"
            ) from error
        if type(behind) is type(x):
            return x
        x = behind
    return x


def check_alive(x: Any) -> None:
    """Raise ``DeletedTensorError`` if the memory of ``x`` is gone, or its trace has ended."""
    x = plain(x)
    if isinstance(x, TRACER):
        _behind(x)
    elif x.is_deleted():
        raise DeletedTensorError(
            f"the memory of this array of shape {x.shape} is gone: x.delete() freed it, or a "
            "compiled function took it over (donate_argnums)"
        )


def is_random_key(x: Any) -> bool:
    """Whether ``x`` is an array of random keys, as ``jax.random.key`` makes them."""
    return bool(jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key))


def key_numbers(x: Any) -> Any:
    """The numbers of random keys, which NumPy cannot read; any other array itself."""
    return jax.random.key_data(x) if is_random_key(x) else x


def check_whole(x: Any) -> None:
    """Raise ``UnsupportedOperation`` if this process cannot read all of ``x``, an array."""
    check_alive(x)
    if not x.is_fully_addressable:
        raise UnsupportedOperation(
            "the values of an array",
            "parts of it are on devices of other processes: "
            "jax.experimental.multihost_utils.process_allgather(x) brings them here",
        )


def spelled(device: Any) -> str:
    """JAX's name of its device; its longer one on CPUs, since cpu:1 is unidev's own spelling."""
    return repr(device) if device.platform == "cpu" else str(device)


def only_device(x: Any) -> Any:
    """JAX's device that holds all of ``x``, an array.

    Raises:
        UnsupportedOperation: ``x`` is spread over several devices, or in a GPU's host memory.
    """
    sharding = x.sharding
    devices = sharding.device_set
    if len(devices) != 1:
        listed = ", ".join(sorted(map(spelled, devices)))
        raise UnsupportedOperation(
            "the device of a sharded array",
            f"it is spread over {len(devices)} devices: {listed}; copy_to(x, device), as "
            "jax.device_put, brings the whole to one",
        )
    (device,) = devices
    kind = sharding.memory_kind
    if device.platform != "cpu" and kind is not None and kind != device.default_memory().kind:
        raise UnsupportedOperation(
            "the device of an array",
            f"it is in the memory {kind!r} of {device}, which is not that device's own; "
            "copy_to(x, device) copies it there",
        )
    return device


def is_tracing() -> bool:
    """Whether JAX traces the function that runs now, to compile or to differentiate it."""
    return bool(_trace_state() != _outside())


def is_compiling() -> bool:
    """Whether that is to compile it: then new arrays are traced, too."""
    return is_tracing() and isinstance(jax.numpy.zeros(()), TRACER)


def _outside() -> Any:
    """JAX's state where no function is traced: that of a new thread."""
    if not _states:
        thread = threading.Thread(target=lambda: _states.append(_trace_state()))
        thread.start()
        thread.join()
    return _states[0]


_states: list[Any] = []


def host_copy(x: Any) -> Array:
    """New memory; bfloat16 as float32, which holds the same numbers."""
    values = np.array(x)
    return values.astype(np.float32) if values.dtype.name == "bfloat16" else values
