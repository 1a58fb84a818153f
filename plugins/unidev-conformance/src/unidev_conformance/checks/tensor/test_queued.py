"""Copies with ``non_blocking``, whatever happens to the source meanwhile. PYTEST_DONT_REWRITE."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import unidev
from unidev_conformance.kit.inputs import samples
from unidev_conformance.running.catalog import check

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from unidev.device import Device
    from unidev_conformance.kit.workbench import Workbench

_SHAPE = (3, 50_000)
"""600 kB, which takes a bus longer than a call takes."""


def _queued(x: Any, target: Device) -> Any:
    return unidev.copy_to(x, target, non_blocking=True)


@check(required=True, over="ring")
def test_read_at_once(bench: Workbench, source: Device, target: Device) -> None:
    """However a queued copy is read, without ``synchronize``, its values have arrived."""
    x, values = bench.make(samples.counting(_SHAPE), source), samples.counting(_SHAPE)
    content, where = values.tobytes(), f"{source} to {target}, non_blocking"
    for name, read in _readers(bench, source, target).items():
        y = _queued(x, target)
        bench.oracle.check_content(read(y), content, f"{where}, by {name}")
        bench.oracle.check_device(y, target, where)
        bench.oracle.check_disjoint(x, y, where)
    y = _queued(x, target)
    if target.kind == "cpu":  # whatever reads host memory knows of no queue
        bench.oracle.check_memory(y, target, content, f"{where}, in host memory at once")
    moved = unidev.as_in_device([x, x], target, non_blocking=True)
    bench.oracle.check_bytes(moved[0], content, f"as_in_device, {where}")


def _readers(bench: Workbench, source: Device, target: Device) -> dict[str, Callable[[Any], bytes]]:
    read = bench.probe.read
    return {
        "the framework's own reading": read,
        "to_numpy": lambda y: unidev.to_numpy(y).tobytes(),
        f"a copy of it on {source}": lambda y: read(unidev.copy_to(y, source)),
        f"a queued copy of it on {source}": lambda y: read(_queued(y, source)),
        f"a copy of it on {target}": lambda y: read(unidev.copy_to(y, target)),
        "array of it": lambda y: read(unidev.array(y, device=target)),
    }


@check(required=True, over="ring")
def test_behind_queued_work(bench: Workbench, source: Device, target: Device) -> None:
    """A copy of what is still being computed has the result, and work on a copy has its values."""
    values = samples.counting(_SHAPE)
    x = bench.make(values, source)
    with source:
        doubled = x + x
    y = _queued(doubled, target)
    with target:
        doubled_again = y + y
    where = f"{source} to {target}, non_blocking"
    bench.oracle.check_bytes(y, (2 * values).tobytes(), f"{where}, of a result")
    bench.oracle.check_bytes(doubled_again, (4 * values).tobytes(), f"{where}, and computed with")


@check(required=True, needs=("probe.write",), over="ring")
def test_source_changed_at_once(bench: Workbench, source: Device, target: Device) -> None:
    """A source that is written to right after the call, pinned or not, leaves the copy as it is."""
    for kind, x in _sources(bench, source):
        content, where = bench.probe.read(x), f"{kind}, {source} to {target}, non_blocking"
        y = _queued(x, target)
        bench.probe.write(x, 7)
        bench.oracle.check_bytes(y, content, f"{where}, after writing to the source")
        unidev.synchronize(target)
        bench.oracle.check_memory(y, target, content, f"{where}, after synchronize")


@check(required=True, over="ring")
def test_source_dropped_at_once(bench: Workbench, source: Device, target: Device) -> None:
    """A source that is dropped right after the call is not overwritten before it was read."""
    for kind, x in _sources(bench, source):
        content, where = bench.probe.read(x), f"{kind}, {source} to {target}, non_blocking"
        y = _queued(x, target)
        del x
        others = _others(bench, source)
        bench.oracle.check_bytes(y, content, f"{where}, after its source was dropped")
        unidev.synchronize(target)
        bench.oracle.check_memory(y, target, content, f"{where}, dropped, after synchronize")
        _check_others(bench, others, where)


@check(required=True, over="ring")
def test_synchronized(bench: Workbench, source: Device, target: Device) -> None:
    """``synchronize`` of the target, of a GPU that is the source, and of all wait for a copy."""
    waits: dict[str, Callable[[], None]] = {
        f"synchronize({target})": lambda: unidev.synchronize(target),
        "synchronize()": unidev.synchronize,
    }
    if source.kind == "gpu":
        waits[f"synchronize({source})"] = lambda: unidev.synchronize(source)
    for number, (name, wait) in enumerate(waits.items()):
        values = samples.counting(_SHAPE) + number  # not what the memory may hold from before
        y = _queued(bench.make(values, source), target)
        wait()
        where = f"{source} to {target}, non_blocking, after {name}"
        bench.oracle.check_memory(y, target, values.tobytes(), where)
        bench.oracle.check_bytes(y, values.tobytes(), where)


@check(required=True, needs=("probe.side_stream",), over="ring")
def test_side_stream(bench: Workbench, source: Device, target: Device) -> None:
    """A copy queued in a side stream reads its source as it was, though that is dropped at once."""
    gpu = next((each for each in (source, target) if each.kind == "gpu"), None)
    if gpu is None:
        return  # `over` goes through others, too
    for blocking in (False, True):
        x = bench.make(samples.counting(_SHAPE), source)
        content = bench.probe.read(x)
        unidev.synchronize()
        with bench.probe.side_stream(gpu):
            y = unidev.copy_to(x, target, non_blocking=not blocking)
        del x
        others = _others(bench, source)  # in the usual stream, where that memory is from
        unidev.synchronize(gpu)
        where = f"{source} to {target} in a side stream, non_blocking={not blocking}"
        bench.oracle.check_bytes(y, content, where)
        _check_others(bench, others, where)


def _sources(bench: Workbench, source: Device) -> Iterator[tuple[str, Any]]:
    """Tensors of which nothing else holds the memory, one at a time."""
    yield "a tensor", bench.make(samples.counting(_SHAPE), source)
    if source.kind == "cpu" and bench.has("pinned"):
        pinned = bench.backend.pinned
        yield "a pinned tensor", bench.works(pinned, bench.make(samples.counting(_SHAPE), source))


def _others(bench: Workbench, source: Device) -> list[Any]:
    """Tensors that an allocator puts into the memory that was freed last."""
    return [bench.make(samples.counting(_SHAPE) + 1 + number, source) for number in range(3)]


def _check_others(bench: Workbench, others: list[Any], where: str) -> None:
    for number, x in enumerate(others):
        expected = (samples.counting(_SHAPE) + 1 + number).tobytes()
        bench.oracle.check_bytes(x, expected, f"{where}: a tensor made meanwhile")
