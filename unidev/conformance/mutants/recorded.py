"""``Recorded``: an ndarray that remembers what it was computed from, for ``autograd``.

It knows copies and products, which is what the check of the gradient uses; anything else it
refuses, so that a gradient is never wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from unidev.contract.device import Device

    Array = np.ndarray[Any, Any]


class Recorded(np.ndarray):
    """An array on a device, and each array it came from with the derivative by that."""

    device_here: Device
    parents: list[tuple[Recorded, Array]]

    @classmethod
    def place(cls, array: Array, device: Device, parents: list[tuple[Recorded, Array]]) -> Recorded:
        """``array``'s memory as an array on ``device``."""
        placed = array.view(cls)
        placed.device_here = device
        placed.parents = parents
        return placed

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        """Products of recorded arrays on one device."""
        if ufunc is not np.multiply or method != "__call__" or options:
            return NotImplemented
        if not all(isinstance(x, Recorded) and x.device_here is self.device_here for x in inputs):
            return NotImplemented
        left, right = (x.view(np.ndarray) for x in inputs)
        parents = [(inputs[0], right), (inputs[1], left)]
        return Recorded.place(left * right, self.device_here, parents)

    def copied(self, device: Device, *, is_recorded: bool) -> Recorded:
        """The same values in new memory on ``device``."""
        values = self.view(np.ndarray).copy()
        return Recorded.place(values, device, [(self, np.ones_like(values))] if is_recorded else [])


def gradient_of_sum(result: Recorded, source: Recorded) -> Array:
    """Of the sum of ``result`` with regard to ``source``: zeros, if nothing leads there."""
    total = np.zeros_like(source.view(np.ndarray))
    waiting = [(result, np.ones_like(result.view(np.ndarray)))]
    while waiting:
        x, slope = waiting.pop()
        if x is source:
            total += slope
        waiting += [(parent, slope * derivative) for parent, derivative in x.parents]
    return total
