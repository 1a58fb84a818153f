"""TensorFlow's calls that transfer, and what they move; and calls that move nothing.

Each call runs in a scope of its own, since outside of one TensorFlow computes on the CPU, or on the
first real GPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from unidev_tensorflow.probe.transfers import calls, operands, simulated
from unidev_tensorflow.probe.transfers.place import Place

if TYPE_CHECKING:
    from collections.abc import Iterator

    from unidev.contract import Device, TransferExample
    from unidev_tensorflow.probe.transfers.place import Make


def transfers_of(gpu: Device, make: Make) -> Iterator[TransferExample]:
    """See ``Probe.transfers``."""
    place = Place(gpu, make)
    yield from calls.reads(place)
    yield from calls.copies(place)
    yield from calls.made(place)
    yield from operands.operands(place)
    yield from operands.variables(place)
    yield from operands.programs(place)
    yield from calls.nothing(place)
    if gpu.is_simulated:
        yield from simulated.whole_numbers(place)
        yield from simulated.shapes(place)
        yield from simulated.outside_a_scope(place)
        yield from simulated.training(place)
