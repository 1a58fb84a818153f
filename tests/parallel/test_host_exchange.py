"""Arrays that no engine carries: in memory that the workers share, or by messages."""

from __future__ import annotations

import errno
import itertools
import os
import random
import re
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import host_exchanges
import numpy as np
import pytest
from host_exchanges import by_memory, by_messages, together

import unidev
from unidev.parallel.exchange.host_engine import MemoryCarrier
from unidev.system.host import neighbours, shared_memory

if TYPE_CHECKING:
    from collections.abc import Callable

    from core_fixtures import RunPython

SMALL, LARGE = 5, 50_000
WAYS = [by_memory, by_messages]


@pytest.fixture(autouse=True)
def _small_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large array takes several slots, of which the last one is not full."""
    monkeypatch.setattr(shared_memory, "_MOST_SLOT", 16 * shared_memory._PAGE)


def numbers(count: int, rank: int, dtype: str = "float32") -> np.ndarray[Any, Any]:
    """Numbers whose sum depends on the order; the same ones for the same rank."""
    drawn = np.random.default_rng(rank).standard_normal(count) * 10.0 ** (3 * (rank % 3))
    return (drawn * 100).astype(dtype)


def in_order(parts: list[np.ndarray[Any, Any]], ufunc: np.ufunc) -> np.ndarray[Any, Any]:
    total = parts[0].copy()
    for part in parts[1:]:
        total = ufunc(total, part)
    return total


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("size", [2, 3, 8])
@pytest.mark.parametrize("count", [1, SMALL, LARGE])
@pytest.mark.parametrize(
    ("ufunc", "dtype"), [(np.add, "float32"), (np.add, "complex64"), (np.maximum, "int16")]
)
def test_all_get_the_bits_of_a_sum_in_the_order_of_ranks(
    way: Any, size: int, count: int, ufunc: np.ufunc, dtype: str
) -> None:
    expected = in_order([numbers(count, rank, dtype) for rank in range(size)], ufunc)

    def work(carrier: Any, rank: int) -> bytes:
        own = numbers(count, rank, dtype)
        carrier.all_reduce(own, ufunc)
        return own.tobytes()

    assert together(way(size), work) == [expected.tobytes()] * size


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("size", [2, 5])
@pytest.mark.parametrize("count", [SMALL, LARGE])
def test_values_of_one_and_of_all_come_to_all(way: Any, size: int, count: int) -> None:
    def work(carrier: Any, rank: int) -> tuple[bytes, list[bytes]]:
        given = numbers(count, rank)
        carrier.broadcast(given, size - 1)
        return given.tobytes(), [x.tobytes() for x in carrier.all_gather(numbers(count, rank))]

    everybody = [numbers(count, rank).tobytes() for rank in range(size)]
    assert together(way(size), work) == [(everybody[-1], everybody)] * size


@pytest.mark.parametrize("way", WAYS)
def test_exchanges_do_not_mix_whoever_is_late(way: Any) -> None:
    """Of sizes by turns, so that a worker that is ahead writes while another still reads."""
    size, rounds = 6, 40

    def work(carrier: Any, rank: int) -> bytes:
        late, found = random.Random(rank), b""
        for number in range(rounds):
            if late.random() < 0.2:
                time.sleep(0.002)  # late on purpose: the others go on as far as they can
            own = numbers(LARGE if number % 5 == 0 else SMALL, rank + number)
            if number % 3:
                carrier.all_reduce(own, np.add)
            else:
                carrier.broadcast(own, number % size)
            carrier.all_gather(own[:1])
            found += own.tobytes()
        return found

    found = together(way(size), work)
    expected = b""
    for number in range(rounds):
        count = LARGE if number % 5 == 0 else SMALL
        if number % 3:
            parts = [numbers(count, rank + number) for rank in range(size)]
            expected += in_order(parts, np.add).tobytes()
        else:
            expected += numbers(count, number % size + number).tobytes()
    assert [each == expected for each in found] == [True] * size


def test_a_worker_that_is_killed_within_an_exchange_is_named() -> None:
    with pytest.raises(unidev.WorkerFailedError) as caught:
        unidev.run(host_exchanges.killed_within_an_exchange, workers=3, backend="numpy")
    assert (caught.value.rank, caught.value.signal) == (1, signal.Signals.SIGKILL.name)


def test_tensors_of_one_host_do_not_go_through_the_process_that_started_the_run() -> None:
    assert unidev.run(host_exchanges.sent_by_channel, workers=3, backend="numpy") == [0, 0, 0]


def test_without_such_memory_they_travel_by_the_channel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(shared_memory.os, "memfd_create")
    sent = unidev.run(host_exchanges.sent_by_channel, workers=3, backend="numpy")
    assert all(nbytes >= host_exchanges.SENT_BYTES for nbytes in sent)


@pytest.mark.parametrize("call", ["memfd_create", "ftruncate", "pipe"])
@pytest.mark.parametrize(
    "code", ["EFBIG", "ENOSPC", "EACCES", "EMFILE", "EPERM", "EROFS", "ENOMEM", "ENOSYS"]
)
def test_no_error_of_making_that_memory_is_one_of_the_run(
    monkeypatch: pytest.MonkeyPatch, call: str, code: str
) -> None:
    def fail(*_: object) -> None:
        raise OSError(getattr(errno, code), code)

    before = os.listdir("/dev/fd")
    with monkeypatch.context() as patched:
        patched.setattr(shared_memory.os, call, fail)
        with shared_memory.files_for(3) as files:
            assert files == ()
    assert {*os.listdir("/dev/fd")} <= {*before}  # a collection may have closed others


def shared_by(size: int, scheduled: Callable[[int, int, bytes], bytes]) -> list[Any]:
    """What each of ``size`` threads shares, each as if it were a process of its own."""
    given: list[bytes] = [b""] * size
    meeting = threading.Barrier(size, timeout=60)

    def work(_: Any, rank: int) -> Any:
        turns = itertools.count()

        def gathered(own: bytes) -> list[bytes]:
            given[rank] = scheduled(next(turns), rank, own)
            meeting.wait()
            found = [*given]
            meeting.wait()
            return found

        return neighbours.shared_by_all(gathered, rank, size, 60.0)

    return together([None] * size, work)


def test_processes_that_nobody_has_given_memory_find_that_of_the_first() -> None:
    parts = shared_by(3, lambda *given: given[2])

    def work(part: Any, rank: int) -> tuple[bytes, Any]:
        own = numbers(LARGE, rank)
        MemoryCarrier(part.memory).all_reduce(own, np.add)
        part.mark.propose(1, 815, float(rank))
        return own.tobytes(), part.mark.agreed(1, 815, lambda: None)

    expected = in_order([numbers(LARGE, rank) for rank in range(3)], np.add)
    assert together(parts, work) == [(expected.tobytes(), [0.0, 1.0, 2.0])] * 3
    for part in parts:
        part.files.close()


@pytest.mark.parametrize(
    ("at", "old", "new"),
    [
        (0, b"pid:", b"another:"),  # the namespace
        (0, str(os.getuid()).encode(), b"4711"),
        (1, b"]]]", b"1]]]"),  # of another file with that number
        (1, b"[[", b"[[1"),  # no such file
        (2, b"whole", b""),
    ],
)
def test_what_one_cannot_share_nobody_does(at: int, old: bytes, new: bytes) -> None:
    before = os.listdir("/dev/fd")

    def changed(turn: int, rank: int, own: bytes) -> bytes:
        return own.replace(old, new) if turn == at and rank == (at != 1) else own

    assert shared_by(2, changed) == [None, None]
    assert {*os.listdir("/dev/fd")} <= {*before}


@pytest.mark.parametrize("most", [1000, 100])
def test_within_a_limit_on_the_length_of_files_that_memory_is_left_out(
    run_python: RunPython, most: int
) -> None:
    said = run_python(f"""
        import resource, signal
        import host_exchanges, unidev
        resource.setrlimit(resource.RLIMIT_FSIZE, ({most}, resource.RLIM_INFINITY))
        if {most} == 1000:  # else what ends the run is the file of the workers' progress
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        try:
            sent = unidev.run(host_exchanges.sent_by_channel, workers=2, backend="numpy")
            print(min(sent) >= host_exchanges.SENT_BYTES)
        except unidev.RunError as error:
            print(error)
    """, PYTHONPATH=os.pathsep.join(sys.path), PYTHONDONTWRITEBYTECODE="1")  # fmt: skip
    expected = {1000: "True", 100: r"the workers do not start: \[Errno 27\] .*\(`ulimit -f`\)\."}
    assert re.fullmatch(expected[most], said.splitlines()[-1]), said
