"""Batches that are read ahead of their use.

PYTEST_DONT_REWRITE
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np

import unidev
from unidev.conformance.running.catalog import check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from unidev.conformance.kit.workbench import Workbench
    from unidev.contract.device import Device

_COUNT = 8


@check(required=True, over="devices")
def test_in_order_on_the_device(bench: Workbench, device: Device) -> None:
    """Host arrays and tensors arrive on the device, in order, in memory of their own."""
    for source in bench.devices:
        x = bench.matrix(source)
        batches = [(np.full(3, number, np.float32), x, "name") for number in range(_COUNT)]
        found = list(unidev.prefetch(batches, device))
        assert len(found) == _COUNT, f"{len(found)} batches of {_COUNT}"
        for number, (made, copied, name) in enumerate(found):
            where = f"batch {number}, {source} to {device}"
            bench.oracle.check_device(made, device, where)
            bench.oracle.check_bytes(made, np.full(3, number, np.float32).tobytes(), where)
            bench.oracle.check_copy(x, copied, device, where)
            assert name == "name", f"{where}: a string became {name!r}"


@check(required=True, over="devices")
def test_overwritten_buffers(bench: Workbench, device: Device) -> None:
    """A loader may overwrite its array once the next batch is asked for."""
    buffer = np.empty(100_000, np.float32)

    def overwriting() -> Iterator[Any]:
        for number in range(_COUNT):
            buffer[...] = number
            yield buffer

    for number, x in enumerate(unidev.prefetch(overwriting(), device, depth=4)):
        expected = np.full(buffer.shape, number, np.float32).tobytes()
        bench.oracle.check_bytes(x, expected, f"batch {number} on {device}")


@check(required=True, over="devices")
def test_errors_and_early_ends(bench: Workbench, device: Device) -> None:
    """An error of the loader comes in its place; however it ends, no thread is left."""
    del bench

    def failing() -> Iterator[Any]:
        yield np.zeros(2, np.float32)
        yield np.ones(2, np.float32)
        raise LookupError("no third batch")

    before = set(threading.enumerate())
    seen, raised = 0, ""
    try:
        for _ in unidev.prefetch(failing(), device, depth=1):
            seen += 1
    except LookupError as error:
        raised = str(error)
    assert raised == "no third batch", f"the error of the loader was lost: {raised!r}"
    assert seen == 2, f"{seen} batches before the error, not 2"
    for _ in unidev.prefetch([np.zeros(2, np.float32)] * _COUNT, device):
        break
    left = [each.name for each in set(threading.enumerate()) - before]
    assert not left, f"threads are left: {', '.join(left)}"
