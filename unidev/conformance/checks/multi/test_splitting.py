"""``split_batch`` and ``gather``: rows on several devices, and together again.

PYTEST_DONT_REWRITE
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

import unidev
from unidev.conformance.kit.inputs import samples
from unidev.conformance.running.catalog import check
from unidev.contract.backend import Unsupported

if TYPE_CHECKING:
    from unidev.conformance.kit.workbench import Workbench

_NEEDS = ("collectives",)


@check(required=True, needs=_NEEDS)
def test_shards(bench: Workbench) -> None:
    """Each device gets its share of the rows, in order, evenly or in proportion to weights."""
    devices = bench.several(3)
    count = len(devices)
    even = [3] * count
    uneven = [3, *[2] * (count - 1)]
    weighted = [2, *[1] * (count - 2), 3]
    for sizes, weights in ((even, None), (uneven, None), (weighted, weighted)):
        values = samples.counting((sum(sizes), 2))
        x, y = bench.make(values, devices[-1]), bench.make(values[:, 0].copy(), devices[0])
        batch = {"x": x, "y": (y, "text"), "again": x}
        shards = unidev.split_batch(batch, devices, weights=weights)
        assert len(shards) == count, f"{len(shards)} shards for {count} devices"
        start = 0
        for shard, device, size in zip(shards, devices, sizes, strict=True):
            where = f"{sum(sizes)} rows, weights {weights}, the shard of {device}"
            rows = values[start : start + size]
            for tensor, expected in ((shard["x"], rows), (shard["y"][0], rows[:, 0])):
                bench.oracle.check_device(tensor, device, where)
                assert tuple(tensor.shape) == expected.shape, f"{where}: {tuple(tensor.shape)}"
                bench.oracle.check_bytes(tensor, expected.tobytes(), where)
            assert shard["y"][1] == "text", f"{where}: a leaf that is not a tensor has changed"
            assert shard["again"] is shard["x"], f"{where}: a tensor that was one is two"
            start += size


@check(required=True, needs=_NEEDS)
def test_refusals(bench: Workbench) -> None:
    """Too few rows, rows that differ, and wrong weights are errors that name paths and numbers."""
    devices = bench.several(3)
    x = bench.make(samples.counting((len(devices) - 1, 2)), devices[0])
    longer = bench.make(samples.counting((len(devices), 2)), devices[0])
    number = bench.make(np.array(1, "float32"), devices[0])
    few = bench.expect(unidev.InvalidDataError, unidev.split_batch, x, devices)
    assert str(len(devices) - 1) in str(few), f"the number of rows is not in: {few}"
    batch = {"image": longer, "label": x}
    differ = bench.expect(unidev.InvalidDataError, unidev.split_batch, batch, devices)
    assert "image" in str(differ), f"the path is not in: {differ}"
    bench.expect(unidev.InvalidDataError, unidev.split_batch, [number], devices)
    bench.expect(unidev.DeviceError, unidev.split_batch, longer, [])
    for weights in ([1], [0, *[1] * (len(devices) - 1)], "abc"):
        bench.expect(unidev.InvalidDataError, unidev.split_batch, longer, devices, weights=weights)


@check(required=True, needs=_NEEDS)
def test_gather_inverts(bench: Workbench) -> None:
    """Gathering the shards gives the batch, bit for bit, on any device and for each dtype."""
    devices = bench.several(3)
    for number, drawn in enumerate(bench.drawn(*devices[:2], is_large=False)):
        if len(drawn.values.shape) < 1 or drawn.values.shape[0] < 2:
            continue
        source, target = devices[number % len(devices)], devices[-1 - number % len(devices)]
        x = drawn.make(bench.probe, source)
        shards = unidev.split_batch(x, devices[:2])
        whole = unidev.gather(shards, target)
        where = f"{drawn}, from {source} by {devices[:2]} to {target}"
        bench.oracle.check_copy(x, whole, target, where)
    rows = [bench.make(np.full((size, 2), size, "float32"), devices[0]) for size in (1, 3, 2)]
    expected = np.repeat(np.array([[1.0, 1.0], [3.0, 3.0], [2.0, 2.0]], "float32"), (1, 3, 2), 0)
    gathered = unidev.gather(rows, devices[1])
    bench.oracle.check_bytes(gathered, expected.tobytes(), "gathered in the order of the list")


@check(required=True, needs=_NEEDS)
def test_memory(bench: Workbench) -> None:
    """Shards share no memory with the batch or each other, nor does what is gathered."""
    devices = bench.several(3)
    for listed in (devices, [devices[0]] * 3, [devices[1]]):
        x = bench.make(samples.counting((6, 500)), devices[0])
        shards = unidev.split_batch(x, listed)
        held: list[Any] = [x, *shards, unidev.gather(shards, listed[0])]
        for (i, one), (j, other) in combinations(enumerate(held), 2):
            where = f"the batch, its shards on {listed} and what is gathered, number {i} and {j}"
            bench.oracle.check_disjoint(one, other, where)
        if not isinstance(bench.probe.write, Unsupported):
            bench.oracle.check_elements_apart(held, f"the batch and its shards on {listed}")


@check(required=True, needs=(*_NEEDS, "autograd", "functions"))
def test_gradients(bench: Workbench) -> None:
    """Gradients flow back through shards and through what is gathered."""
    devices = bench.several(3)
    values = samples.counting((4, 2))
    x, target = (bench.make(array, devices[0]) for array in (values, np.zeros((4, 2), "float32")))

    def loss_of(given: Any) -> Any:
        whole = unidev.gather(unidev.split_batch(given, devices[:2]), devices[0])
        return unidev.nn.functional.mean_squared_error(whole, target)

    _, gradient = bench.works(unidev.value_and_grad(loss_of), x)
    bench.oracle.check_device(gradient, devices[0], "the gradient of a batch")
    found, expected = unidev.to_numpy(gradient), 2 * values / values.size
    assert np.allclose(found, expected, rtol=1e-6), f"the gradient is {found}, not {expected}"
