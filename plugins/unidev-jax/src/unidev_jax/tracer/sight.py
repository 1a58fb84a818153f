"""Where JAX's arrays are, and the parts that hold their values."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from unidev.contract import PlannedTransfer
from unidev.errors import UnidevError
from unidev_jax.framework import jax

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from unidev.contract import Backend, Device


class Sight:
    """unidev's devices, by JAX's arrays and shardings."""

    def __init__(self, backend: Backend) -> None:
        self.cpu = backend.cpu
        self._backend = backend

    def device_of(self, x: Any) -> Device | None:
        """Where ``x`` is; None if that is not one device, or it has no memory."""
        try:
            return self._backend.device_of(x)
        except UnidevError:
            return None

    def device(self, native: Any) -> Device | None:
        """The device that a ``jax.Device`` is; None if it is another process's."""
        found = self._backend.parse_native(native)
        return None if found is None else self._backend.device(*found)

    def default(self) -> Device | None:
        """Where JAX puts what names no device."""
        chosen = jax.config.jax_default_device
        if chosen is None or isinstance(chosen, str):  # a platform
            return self.device(jax.local_devices(backend=chosen)[0])
        return self.device(chosen)

    def devices_in(self, wanted: Any) -> Sequence[Device]:
        """The devices of this process in a ``jax.Device``, a sharding or a ``Format``.

        None of them in another memory of the array's own device.
        """
        sharding = getattr(wanted, "sharding", wanted)  # a Format has one
        if isinstance(sharding, jax.Device):
            natives: Iterable[Any] = [sharding]
        elif isinstance(sharding, jax.sharding.Sharding):
            natives = sorted(sharding.addressable_devices, key=lambda each: int(each.id))
        else:
            return []
        return [each for each in map(self.device, natives) if each is not None]


def parts_of(x: Any) -> list[Any]:
    """The arrays on single devices that together have the values of ``x``, each part once."""
    if len(x.sharding.device_set) == 1:
        return [x]
    shards = x.addressable_shards
    if x.is_fully_replicated:
        return [shards[0].data]
    return [each.data for each in shards if each.replica_id == 0]


def are_one(source: Device, target: Device) -> bool:
    """Also true of two indices of the CPU: without simulation they share one memory."""
    return source is target or source.kind == target.kind == "cpu"


def shard_shape(x: Any, wanted: Any) -> tuple[int, ...]:
    """The shape of each device's part of ``x`` in a sharding."""
    shape: tuple[int, ...] = getattr(wanted, "sharding", wanted).shard_shape(x.shape)
    return shape


def transfer(
    operation: str, x: Any, source: Device, target: Device, shape: tuple[int, ...] | None = None
) -> PlannedTransfer:
    """That of ``x``, or of a part that has ``shape``; NumPy's 64 bits are narrowed before."""
    shape = tuple(x.shape) if shape is None else shape
    size = jax.dtypes.canonicalize_dtype(x.dtype).itemsize if source.kind == "cpu" else 0
    return PlannedTransfer(
        operation, source, target, math.prod(shape) * (size or x.dtype.itemsize), shape
    )
