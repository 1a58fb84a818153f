"""The memory of array-api-strict's CPU, which is NumPy's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import array_api_strict
import numpy as np

from unidev.contract import HostInterop

if TYPE_CHECKING:
    from unidev.contract import Array


class StrictInterop(HostInterop):
    """By way of NumPy, which has strides, and memory that is read-only.

    The library's own ``from_dlpack`` has neither, and ``device1`` exports as if it were the CPU.
    """

    def array_of(self, x: Any) -> Array:
        """A view, by the buffer protocol."""
        return np.asarray(x)

    def tensor_of(self, array: Array) -> Any:
        """``asarray(copy=False)``."""
        return array_api_strict.asarray(array, copy=False, device=self.backend.cpu.native)
