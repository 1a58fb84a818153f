"""Runs all tasks on one backend, within a time limit: each call repeated until it is known."""

from __future__ import annotations

import datetime
import gc
import os
import platform
import time
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from unidev.backends.boundary import errors_of
from unidev.backends.versions import framework_version
from unidev.bench import textbook
from unidev.bench.results import BANDWIDTH, Bench, DeviceRecord, GpuRecord, Result
from unidev.bench.spread import summary
from unidev.bench.tasks import Host, floor_tasks, matrix_tasks, transfer_tasks
from unidev.contract.backend import Unsupported
from unidev.errors import FrameworkError, UnidevError, UnsupportedOperation
from unidev.system.collecting import collection_paused
from unidev.system.gpu_state import driver_version, read_states
from unidev.system.machine import cpu_mhz
from unidev.system.version import __version__
from unidev.tensors.devices import devices_of, memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from unidev.bench.spread import Summary
    from unidev.bench.tasks import Task
    from unidev.contract.backend import Backend
    from unidev.device import Device

    Progress = Callable[[int, int, Task], None]
    """Called with the number of finished tasks, the number of all tasks, and the next task."""

QUICK_S, FULL_S = 80.0, 1800.0
"""For each device: after this many seconds on it, no further task of it is started."""


_SAMPLE_S = 1e-3
"""Shorter calls are repeated within one timing, so that the clock's own cost is negligible."""
_MOST_CALLS = 1000


class Effort(NamedTuple):
    """How much time to spend on one measurement."""

    budget_s: float = 0.4
    most: int = 30
    """The most timings to take; fewer if the budget is used up."""
    least: int = 5
    few: int = 3
    """The number of timings if one call takes longer than the budget."""


QUICK = Effort()
FULL = Effort(budget_s=2.0, most=100, least=11, few=5)


def run(
    backend: Backend, *, is_full: bool, progress: Progress, limit_s: float | None = None
) -> Bench:
    """Measure everything on the real devices of ``backend``, each for up to ``limit_s``."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    devices, installation = devices_of(backend), backend.installation
    host = Host(backend, [each for each in devices if not each.is_simulated])
    tasks = list(all_tasks(host))
    before = read_states() if any(each.kind == "gpu" for each in devices) else ()
    began = time.monotonic()
    if limit_s is None:
        limit_s = FULL_S if is_full else QUICK_S
    spent = dict.fromkeys(devices, 0.0)
    results = []
    for done, task in enumerate(tasks):
        progress(done, len(tasks), task)
        start = time.monotonic()
        is_late = spent[task.payer] > limit_s
        results.append(_result(task, backend, is_full=is_full, is_late=is_late))
        spent[task.payer] += time.monotonic() - start
    seconds = time.monotonic() - began
    after = {each.index: each for each in read_states()} if before else {}  # clocks are still high
    states = tuple(GpuRecord(before=each, after=after.get(each.index)) for each in before)
    return Bench(
        backend=backend.name,
        framework=backend.spec.framework,
        framework_version=framework_version(backend),
        unidev_version=__version__,
        python=platform.python_version(),
        platform=platform.platform(),
        cores=os.cpu_count() or 1,
        load=load,
        date=datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        is_full=is_full,
        seconds=seconds,
        devices=tuple(_device(each) for each in devices),
        results=tuple(results),
        cpu_mhz=cpu_mhz(),
        driver=driver_version() if before else None,
        settings={} if isinstance(installation, Unsupported) else installation.settings(),
        gpu_states=states,
    )


def _device(device: Device) -> DeviceRecord:
    record = DeviceRecord(device=str(device), name=device.name, is_simulated=device.is_simulated)
    if device.kind == "cpu" or device.is_simulated:
        return record
    try:
        found = memory(device)
    except (UnsupportedOperation, FrameworkError):
        return record
    return replace(record, total_bytes=found.total_bytes, is_memory_shared=found.is_shared)


def all_tasks(host: Host) -> Iterator[Task]:
    """Short tasks first, so that only the largest sizes are left out when time runs out."""
    yield from floor_tasks(host)
    yield from textbook.tasks(host)
    by_size = [*transfer_tasks(host), *matrix_tasks(host)]
    yield from sorted(by_size, key=_work)


def _work(task: Task) -> int:
    """Bytes read; for the two float32 matrices, 8 per element."""
    assert task.size is not None
    return task.size if task.subject == BANDWIDTH else 8 * task.size**2


def _result(task: Task, backend: Backend, *, is_full: bool, is_late: bool) -> Result:
    empty = Result(
        subject=task.subject, what=task.what, device=task.device, variant=task.variant,
        size=task.size,
    )  # fmt: skip
    if is_late:
        return replace(empty, reason="out of time: --limit allows more")
    try:
        with errors_of(backend, f"running {task.what} on {task.device}"), task.scope:
            return replace(empty, summary=measure(task.prepare(), FULL if is_full else QUICK))
    except UnidevError as error:
        return replace(empty, reason=str(error))


def measure(
    call: Callable[[], object],
    effort: Effort = QUICK,
    clock: Callable[[], float] = time.perf_counter,
) -> Summary:
    """Seconds per call; ``call`` itself must wait until its work is done."""
    call()  # a framework compiles, chooses algorithms and allocates memory
    began = clock()
    call()
    first_s = clock() - began
    calls = 1 if first_s >= _SAMPLE_S else min(_MOST_CALLS, int(_SAMPLE_S / max(first_s, 1e-9)) + 1)
    least = effort.few if first_s > effort.budget_s else effort.least
    seconds: list[float] = []
    gc.collect()
    with collection_paused():
        began = clock()
        while len(seconds) < least or (
            len(seconds) < effort.most and clock() - began < effort.budget_s
        ):
            start = clock()
            for _ in range(calls):
                call()
            seconds.append((clock() - start) / calls)
    return summary(seconds)
