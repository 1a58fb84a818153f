"""Several threads at once. PYTEST_DONT_REWRITE."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

import unidev
from unidev_conformance.kit.inputs import samples
from unidev_conformance.kit.processes.first_use import THREADS, first_use
from unidev_conformance.running.catalog import check

if TYPE_CHECKING:
    from unidev.device import Device
    from unidev_conformance.kit.workbench import Workbench


_COPIES = 18
_ELEMENTS = 50_000
"""So many that libraries copy them with the interpreter unlocked."""
_PATIENCE_S = 60


@check(required=True)
def test_scope_stays_in_its_thread(bench: Workbench) -> None:
    """A scope does not affect other threads, in either direction, nor their framework defaults."""
    bench.several(2)
    for device in bench.gpus():
        outside = dict(bench.probe.global_state())
        with device, ThreadPoolExecutor(1) as pool:
            pool.submit(_check_outside, bench, f"while another thread is in {device}").result()
        entered, leave = threading.Event(), threading.Event()
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(_stay_inside, device, entered, leave)
            try:
                assert entered.wait(_PATIENCE_S), f"`with {device}` was not entered in a thread"
                _check_outside(bench, f"while a started thread is in {device}")
                inside = dict(bench.probe.global_state())
            finally:
                leave.set()
            bench.oracle.check_device(waiting.result(), device, f"made inside `with {device}`")
        changed = [name for name in outside if inside.get(name) != outside[name]]
        assert not changed, f"`with {device}` in a thread changes {changed} in others"


def _check_outside(bench: Workbench, where: str) -> None:
    bench.oracle.check_device(unidev.zeros(3), bench.cpu, where)
    assert unidev.active_backend() is bench.backend, f"another backend is selected {where}"


def _stay_inside(device: Device, entered: threading.Event, leave: threading.Event) -> Any:
    with device:
        entered.set()
        leave.wait(_PATIENCE_S)
        return unidev.zeros(3)


@check(required=True)
def test_concurrent_copies_are_right(bench: Workbench) -> None:
    """Copies made by several threads at once are correct, and share no memory."""
    devices = bench.devices
    names = [name for name in bench.dtypes(*devices) if samples.is_numpy_dtype(name)]
    shared = [bench.make(_values(0, dtype), devices[-1]) for dtype in names]
    start = threading.Barrier(THREADS)

    def work(number: int) -> list[tuple[str, bytes, Any]]:
        source = devices[number % len(devices)]
        start.wait(_PATIENCE_S)
        kept = []
        for turn in range(_COPIES):
            dtype = names[(number // 2 + turn) % len(names)]  # two threads at once have the same
            values, target = _values(number, dtype), devices[(number + turn) % len(devices)]
            x = bench.make(values, source)
            if turn % 6 == 1:
                values = values.reshape(250, -1).T
                x = bench.probe.views(bench.make(values.T, source))["transposed"]
            if turn % 3 == 0:  # all threads copy one tensor to one device
                dtype, target = names[turn % len(names)], devices[turn % len(devices)]
                values, x = _values(0, dtype), shared[turn % len(names)]
            y = unidev.copy_to(x, target)
            where = f"thread {number}, {dtype}, {source} to {target}"
            bench.oracle.check_copy(x, y, target, where)
            kept.append((where, values.tobytes(), y))
        for shape in ((), (0, 3)):  # for which a framework may need a setting of the thread
            x = bench.make(samples.counting(shape), source)
            y = bench.works(unidev.copy_to, x, source)
            assert tuple(y.shape) == shape, f"thread {number}, {shape}: shape {tuple(y.shape)}"
            back = bench.works(unidev.to_numpy, y)
            assert back.shape == shape, f"thread {number}, {shape}: read as {back.shape}"
        return kept

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # so that threads meet in the middle of a copy
    try:
        with ThreadPoolExecutor(THREADS) as pool:
            copies = list(pool.map(work, range(THREADS)))
    finally:
        sys.setswitchinterval(interval)
    for kept in copies:
        for where, content, y in kept:
            bench.oracle.check_bytes(y, content, f"{where}, at the end")
    for (_, _, x), (where, _, y) in pairwise([kept[0] for kept in copies]):
        bench.oracle.check_disjoint(x, y, f"{where}, and the thread before it")


def _values(number: int, dtype: str) -> samples.Array:
    counting = np.arange(_ELEMENTS) % (113 - number)
    return (counting % (number + 2) == 0 if dtype == "bool" else counting).astype(dtype)


@check()
def test_first_use_from_several_threads(bench: Workbench) -> None:
    """In a fresh process, several threads may be the first to use the backend at the same time."""
    found = first_use(bench)["threads"]
    assert not found["errors"], f"{len(found['errors'])} threads failed: {found['errors'][0]}"
    assert found["values"] == [[0.0, 0.0, 0.0]] * THREADS, f"the copies hold {found['values']}"
    assert found["backends"] == 1, f"the backend was made {found['backends']} times"
    assert found["devices"] == 1, f"one device became {found['devices']} objects"
    assert found["values made"] == 1, f"a new Device becomes {found['values made']} objects"
    bench.evidence.add("threads", len(found["values"]))
