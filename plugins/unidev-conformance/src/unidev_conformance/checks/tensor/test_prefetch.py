"""Batches that are read ahead of their use. PYTEST_DONT_REWRITE."""

from __future__ import annotations

import itertools
import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np

import unidev
from unidev_conformance.kit.inputs import samples
from unidev_conformance.running.catalog import check

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from unidev.device import Device
    from unidev_conformance.kit.workbench import Workbench

_COUNT = 8


@check(required=True, over="devices")
def test_in_order_on_the_device(bench: Workbench, device: Device) -> None:
    """Host arrays and tensors arrive on the device, in order, in memory of their own.

    The loader runs in the scope in which its loop was begun, wherever that goes on.
    """
    _check_many(bench, device)
    homes = []

    def making() -> Iterator[Any]:
        for _ in range(_COUNT):
            homes.append(unidev.device_of(unidev.zeros(2)))
            yield unidev.zeros(2)

    rows = samples.counting((_COUNT, 3))
    for source in bench.devices:
        if bench.has("probe.loader"):
            with source:
                loader: Any = unidev.prefetch(bench.probe.loader(rows), device)
                given = bench.works(lambda loader: [*loader], loader)
            for x in given:
                bench.oracle.check_device(x, device, f"of a loader, read in {source}")
            contents = sorted(map(bench.probe.read, given))
            assert contents == sorted(map(bytes, rows)), f"a loader read in {source}: other rows"
        with source:
            loop = iter(unidev.prefetch(making(), device))
        bench.oracle.check_device(unidev.zeros(2), bench.cpu, f"after a loop begun in {source}")
        for x in loop:
            bench.oracle.check_device(x, device, f"made in {source}")
        assert homes == [source] * _COUNT, f"begun in {source}, a loader made them on {homes}"
        homes.clear()
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


def _check_many(bench: Workbench, device: Device) -> None:
    """More batches than any depth, of growing sizes; each iteration begins anew."""
    batches = [np.arange(number, dtype=np.float32) for number in range(1, 70)]
    loop: Any = unidev.prefetch(batches, device, depth=5)
    assert len(loop) == len(batches), f"its length is {len(loop)}, not {len(batches)}"
    next(iter(loop))
    read = []

    def counting() -> Iterator[Any]:
        for x in batches:
            read.append(x)
            yield x

    for taken, _ in enumerate(itertools.islice(unidev.prefetch(counting(), device, depth=2), 3)):
        time.sleep(0.02)  # a reader that goes too far does so within that time, or is not seen
        assert len(read) <= taken + 3, f"{len(read)} were read, {taken + 1} used, with depth=2"
    for number, (x, expected) in enumerate(zip(loop, batches, strict=True)):
        bench.oracle.check_bytes(x, expected.tobytes(), f"number {number} of many on {device}")


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
    for wrong, depth in ((3, 2), ([], 0), ([], 1.5), ([], True)):
        bench.expect(unidev.InvalidDataError, unidev.prefetch, wrong, device, depth=depth)

    def failing() -> Iterator[Any]:
        yield np.zeros(2, np.float32)
        yield np.ones(2, np.float32)
        raise LookupError("no third batch")

    before = set(threading.enumerate())
    for depth in (1, 3):  # with 3, both wait when the loader fails
        seen, raised = [], ""
        try:
            for batch in unidev.prefetch(failing(), device, depth=depth):
                time.sleep(0.05)
                seen += unidev.to_numpy(batch)[:1].tolist()
        except LookupError as error:
            raised = str(error)
        assert raised == "no third batch", f"the error of the loader was lost: {raised!r}"
        assert seen == [0, 1], f"before the error came the batches {seen}, not [0, 1]"
    for _ in unidev.prefetch([np.zeros(2, np.float32)] * _COUNT, device):
        break
    left = [each.name for each in set(threading.enumerate()) - before]
    assert not left, f"threads are left: {', '.join(left)}"


@check(
    required=True,
    needs=("autograd.no_grad", "probe.gradient", "probe.autograd.is_differentiable"),
    over="ring",
)
def test_autograd_mode(bench: Workbench, source: Device, target: Device) -> None:
    """Autograd records in prefetch's thread as it does in the loop's, and neither changes that."""

    def looped(x: Any) -> Any:
        _check_recorded(bench, x, target, "outside no_grad", is_recorded=True)
        with unidev.no_grad():
            _check_recorded(bench, x, target, "inside no_grad", is_recorded=False)
        _check_recorded(bench, x, target, "after no_grad", is_recorded=True)
        for wrap in (iter, itertools.chain):
            _check_left_early(bench, x, target, wrap)
        return unidev.copy_to(x, target)

    bench.probe.gradient(looped, samples.counting(), source)


def _check_recorded(
    bench: Workbench, x: Any, target: Device, where: str, *, is_recorded: bool
) -> None:
    flag = bench.probe.autograd.is_differentiable

    def loading() -> Iterator[Any]:
        yield x
        yield unidev.copy_to(x, target)  # made in the thread
        with unidev.no_grad():  # in which the thread stays until the next batch
            yield x

    for number, y in enumerate(unidev.prefetch(loading(), target, depth=4)):
        said = f"batch {number} to {target}, {where}"
        if number < 2:
            assert flag(y) is is_recorded, f"{said}: requires gradients: {flag(y)}"
        here = flag(unidev.copy_to(x, target))
        assert here is is_recorded, f"{said}: a copy in the loop requires gradients: {here}"


def _check_left_early(
    bench: Workbench, x: Any, target: Device, wrap: Callable[[Iterator[Any]], Iterator[Any]]
) -> None:
    """The loader stays in ``no_grad`` when it is left, in another mode than it was begun in."""

    def begun() -> Iterator[Any]:
        is_there = threading.Event()

        def loading() -> Iterator[Any]:
            yield x
            with unidev.no_grad():
                is_there.set()
                yield x

        found = iter(unidev.prefetch(wrap(loading()), target, depth=2))
        next(found)
        assert is_there.wait(60), f"prefetch to {target} with depth 2 does not read a second batch"
        return found

    def check(where: str, *, is_recorded: bool) -> None:
        here = bench.probe.autograd.is_differentiable(unidev.copy_to(x, target))
        assert here is is_recorded, f"prefetch to {target}, {where}: gradients required: {here}"

    reading = begun()
    with unidev.no_grad():
        del reading
        check("left inside no_grad", is_recorded=False)
    check("left inside no_grad, after it", is_recorded=True)
    with unidev.no_grad():
        reading = begun()
    del reading
    check("begun inside no_grad, left after it", is_recorded=True)
