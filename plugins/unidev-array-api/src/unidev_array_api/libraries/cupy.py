"""CuPy, by way of array-api-compat. It has GPUs alone: arrays of the CPU are NumPy's."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

import array_api_compat.cupy
import cupy

from unidev.contract import unsupported, visible_gpus
from unidev_array_api.backend import ArrayApiBackend, Place

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from unidev.contract import Array, Device


class CupyBackend(ArrayApiBackend):
    """Written from CuPy's documentation: it has not been tried on a GPU."""

    interop = unsupported("memory of CuPy's has not been shared on a GPU yet")

    xp = array_api_compat.cupy
    array_type = cupy.ndarray
    key_of = attrgetter("device.id")

    def places(self) -> Sequence[Place]:
        """The GPUs that the driver counts: a ``Device`` that is not used creates no context."""
        count = visible_gpus("rocm" if cupy.cuda.runtime.is_hip else "cuda")
        natives = [cupy.cuda.Device(index) for index in range(count or 0)]
        return [Place("gpu", each, f"cuda:{each.id}", each.id) for each in natives]

    def key(self, native: Any) -> Hashable:
        """The index."""
        return native.id if isinstance(native, cupy.cuda.Device) else None

    def host_array(self, x: Any) -> Array:
        """``get``, which waits."""
        found: Array = x.get(order="C")
        return found

    def synchronize(self, device: Device) -> None:
        """For all streams of the device."""
        device.native.synchronize()
