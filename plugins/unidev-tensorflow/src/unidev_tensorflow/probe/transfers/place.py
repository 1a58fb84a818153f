"""A GPU beside the host, and what is an example between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf  # type: ignore[import-untyped]

from unidev.contract import PlannedTransfer, TransferExample

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from unidev.contract import Device

    Make = Callable[[Any, Device], Any]
    Use = Callable[..., object]
    Moved = tuple[int, tuple[int, ...]]
    Row = tuple[Any, ...]
    """The name of a call, the call, and what it moves."""


VALUES = np.arange(6, dtype=np.float32).reshape(2, 3)
"""24 bytes."""
MIXED = " of mixed operands"


class Place:
    """A GPU, another one if there is one, the host, and examples between them."""

    def __init__(self, gpu: Device, make: Make) -> None:
        self.gpu = gpu
        self.make = make
        self.cpu = type(gpu)(gpu.backend, "cpu", 0)
        kind = gpu.native.device_type
        count = len(tf.config.list_logical_devices(kind)) - gpu.is_simulated
        other = type(gpu)(gpu.backend, "gpu", (gpu.index + 1) % count)
        self.other = None if other == gpu else other

    def matrix(self, device: Device) -> Any:
        """Six floats: 24 bytes."""
        return self.make(VALUES, device)

    def reading(
        self, call: Use, name: str, *moved: Moved, at: Device | None = None
    ) -> TransferExample:
        """A call on the host that moves this from the GPU."""
        return example(within((at or self.cpu).native, call), name, moved, self.gpu, self.cpu)

    def sending(self, call: Use, name: str, *moved: Moved) -> TransferExample:
        """A call on the GPU that moves this to it."""
        return example(within(self.gpu.native, call), name, moved, self.cpu, self.gpu)

    def silent(self, call: Use, at: Device | None = None) -> TransferExample:
        """A call on the GPU that moves nothing."""
        return TransferExample(within((at or self.gpu).native, call), ())


def within(device: Any, call: Use) -> Callable[[], object]:
    """The call in a scope of a device, or in one that a string names."""

    def run() -> object:
        with tf.device(device):
            return call()

    return run


def example(
    call: Callable[[], object], name: str, moved: Sequence[Moved], source: Device, target: Device
) -> TransferExample:
    """The call moves each of ``moved``, bytes and shape, from ``source`` to ``target``."""
    return TransferExample(call, [PlannedTransfer(name, source, target, *each) for each in moved])
