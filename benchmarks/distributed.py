"""``unidev.run`` with two workers on this machine: its cost, as ratios.

``group().all_reduce`` stands against the framework's own call, a step of ``DataParallel`` against
PyTorch's DDP and Paddle's DataParallel, or against one that the framework's engine carries, and a
run that does nothing but meet against the same two processes started by hand, and one of eight
workers, each with a step of an optimizer, against eight that are not forked from one process.
"""

from __future__ import annotations

import os
import pickle
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import own_distributed
from measure import Row, rounds_or
from program import main

import unidev
from unidev.backends.discovery import backend_spec
from unidev.backends.loading import group_setting
from unidev.contract import Rendezvous
from unidev.system.host.ports import free_ports
from unidev.system.wording import bytes_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

LOOP_AT_MOST = {"torch": 1 / 10, "paddle": 1 / 10, "tensorflow": 1 / 10, "mxnet": 1 / 3}
STEP_AT_MOST = {
    "torch": {
        "the digits' LeNet": 0.95, "0.5 M parameters": 0.95, "200 tensors of 64 x 64": 1.1,
        "8 M parameters": 1.05, "8 M parameters in 8 layers": 1.05, "34 M parameters": 0.95,
    },
    "paddle": {"the digits' LeNet": 1.0},
    "tensorflow": {"the digits' LeNet": 0.9},
    "mxnet": {"the digits' LeNet": 0.9},
}  # fmt: skip
FORKS = ("torch",)
BY_ENGINE = "its engine"
OWN_STEP = {
    "torch": "DDP", "paddle": "paddle.DataParallel", "tensorflow": BY_ENGINE, "mxnet": BY_ENGINE
}  # fmt: skip

BY_HAND = """
import pickle, sys
import unidev
from unidev.backends.loading import load_backend
rank, backend, rendezvous = pickle.load(sys.stdin.buffer)
engine = load_backend(backend).group_engine
engine.join(rank, rendezvous, unidev.cpu())
engine.all_reduce(unidev.ones(1), "sum")
engine.leave()
"""


def rows_of(backend: str, _: str) -> Iterator[Row | str]:
    """The rows of one backend."""
    if backend not in LOOP_AT_MOST:
        yield "has no collectives of its own between processes of one machine"
        return
    found = unidev.run(own_distributed.reductions, workers=2, backend=backend)[0]
    where = "into new memory" if backend == "tensorflow" else "in place"
    what = f"all_reduce, {bytes_text(own_distributed.LARGE_BYTES)} {where}"
    yield Row(backend, what, "its own call", *found["large"], 1.1)
    what = f"all_reduce, {own_distributed.TENSORS} x {own_distributed.SIZE:,} floats"
    yield Row(backend, what, "a loop of it", *found["small"], LOOP_AT_MOST[backend])
    steps = unidev.run(own_distributed.steps, workers=2, backend=backend)[0]
    for model, times in steps.items():
        limit = STEP_AT_MOST[backend][model]
        yield Row(backend, f"a step, {model}", OWN_STEP[backend], *times, limit)
    ours, theirs = [], []
    for _round in range(rounds_or(3)):
        ours.append(_seconds_of_run(backend))
        theirs.append(_seconds_by_hand(backend))
    ratio = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
    times = statistics.median(ours), statistics.median(theirs)
    yield Row(backend, "a run of two that meet", "processes by hand", *times, ratio, 1.3)
    if backend in FORKS:
        ours, theirs = [], []
        for _round in range(rounds_or(3)):
            ours.append(_seconds_of_run(backend, own_distributed.first_step, 8, "fork"))
            theirs.append(_seconds_of_run(backend, own_distributed.first_step, 8, "spawn"))
        ratio = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
        times = statistics.median(ours), statistics.median(theirs)
        yield Row(backend, "a run of 8 with one step", 'start="spawn"', *times, ratio, 0.6)


def _seconds_of_run(
    backend: str,
    function: Callable[[], None] = own_distributed.returned,
    workers: int = 2,
    how: str | None = None,
) -> float:
    start = time.perf_counter()
    unidev.run(function, workers=workers, backend=backend, start=how)
    return time.perf_counter() - start


def _seconds_by_hand(backend: str) -> float:
    setting = group_setting(backend_spec(backend))
    assert setting is not None
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as scope:
        ((*helpers_at, first), (second,)) = free_ports([setting.helper_ports + 1, 1])
        hosts = ("127.0.0.1",) * 2
        rendezvous = Rendezvous(hosts, (first, second), tuple(helpers_at), Path(folder), 60.0)
        plan = setting.prepare(rendezvous)
        for each in plan.helpers:
            _started(scope, each.arguments, each.environment)
        workers = []
        for rank, variables in enumerate(plan.environment):
            worker = _started(
                scope, ["-c", BY_HAND], variables, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
            assert worker.stdin is not None
            worker.stdin.write(pickle.dumps((rank, backend, rendezvous)))
            worker.stdin.close()
            workers.append(worker)
        codes = [worker.wait() for worker in workers]
    assert not any(codes), codes
    return time.perf_counter() - start


def _started(
    scope: ExitStack, arguments: Sequence[str], variables: Mapping[str, str], **streams: int
) -> subprocess.Popen[bytes]:
    """A Python that has ended after ``scope``."""
    command = [sys.executable, *arguments]
    process = subprocess.Popen(command, env={**os.environ, **variables}, **streams)
    scope.callback(process.wait)
    scope.callback(process.kill)
    return process


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # else its threads wait for each other
    main(__doc__ or "", rows_of)
