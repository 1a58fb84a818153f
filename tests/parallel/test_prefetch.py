"""``prefetch``: batches in order, ahead of their use; nothing is left behind."""

from __future__ import annotations

import gc
import itertools
import threading
import traceback
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from reading import READS_AHEAD, reading_threads

import unidev

if TYPE_CHECKING:
    from collections.abc import Iterator

    from core_fixtures import RunPython

pytestmark = pytest.mark.usefixtures("two_gpus", "no_thread_is_left")


def numbered(count: int) -> Iterator[np.ndarray[Any, Any]]:
    for number in range(count):
        yield np.full(2, float(number))


def test_the_next_batch_is_read_while_this_one_is_in_use() -> None:
    in_use = threading.Event()

    def waiting() -> Iterator[Any]:
        yield np.zeros(1)
        assert in_use.wait(timeout=60), "nothing reads ahead"
        yield np.ones(1)

    batches = iter(unidev.prefetch(waiting(), "cpu"))
    next(batches)
    in_use.set()
    assert next(batches)[0] == 1


def test_an_error_of_the_loader_has_its_own_traceback_and_comes_in_its_place() -> None:
    def failing_here() -> None:
        raise LookupError("no such picture")

    def failing() -> Iterator[Any]:
        yield np.zeros(1)
        failing_here()

    batches = iter(unidev.prefetch(failing(), "cpu"))
    next(batches)
    with pytest.raises(LookupError, match="no such picture") as caught:
        next(batches)
    assert "failing_here" in "".join(traceback.format_tb(caught.value.__traceback__))
    with pytest.raises(StopIteration):
        next(batches)


def test_an_error_of_the_loader_leaves_it_without_a_collection() -> None:
    class Failing:
        def __iter__(self) -> Failing:
            return self

        def __next__(self) -> Any:
            raise LookupError("no such picture")

    loader = Failing()
    held = weakref.ref(loader)
    gc.disable()
    try:
        with suppress(LookupError):
            next(iter(unidev.prefetch(loader, "cpu")))
        del loader
        assert held() is None
    finally:
        gc.enable()


def test_an_error_of_putting_comes_in_the_place_of_its_batch() -> None:
    batches = iter(unidev.prefetch([np.zeros(1), np.zeros(1, np.longdouble)], "cpu"))
    next(batches)
    with pytest.raises(unidev.UnsupportedDtypeError):
        next(batches)
    with pytest.raises(unidev.DeviceNotFoundError, match="gpu:7"):
        next(iter(unidev.prefetch([np.zeros(1)], "gpu:7")))
    with pytest.raises(unidev.DeviceNotFoundError, match="gpu:7"):
        unidev.prefetch([], unidev.Device("numpy", "gpu", 7))


class Interrupted(BaseException):
    pass


def interrupted(batches: Iterator[Any]) -> None:
    for _ in batches:
        raise Interrupted


@pytest.mark.parametrize("kind", ["break", "error", "never begun", "closed"])
def test_leaving_early_leaves_no_thread_no_batch_and_no_loader(kind: str) -> None:
    class Held(np.ndarray):  # type: ignore[type-arg]
        pass

    held: list[weakref.ref[Any]] = []

    class Loader:
        def __iter__(self) -> Loader:
            return self

        def __next__(self) -> Any:
            batch = {"x": np.zeros(3), "held": Held(1)}
            held.append(weakref.ref(batch["held"]))
            return batch

    iterator = Loader()
    held.append(weakref.ref(iterator))
    batches = iter(unidev.prefetch(iterator, "gpu:0", depth=3))
    del iterator
    if kind == "break":
        for _ in batches:
            break
    elif kind == "error":
        with pytest.raises(Interrupted):
            interrupted(batches)
    elif kind == "closed":
        batches.close()  # type: ignore[attr-defined]
        assert list(batches) == []
    assert len(reading_threads()) == (0 if kind == "closed" else 1)
    batches = _ = None
    gc.collect()
    assert [each() for each in held] == [None] * len(held)


def test_a_generator_leaves_its_scopes_in_the_thread_that_has_entered_them() -> None:
    lock, ended_in = threading.RLock(), []

    def loading() -> Iterator[int]:
        try:
            with lock:
                yield from range(5)
        finally:
            ended_in.append(threading.current_thread().name)

    for _ in unidev.prefetch(loading(), "cpu"):
        break
    assert ended_in == ["unidev-prefetch"]
    assert lock.acquire(blocking=False), "the thread that has ended still holds it"


def test_iter_of_the_loader_runs_in_the_thread_that_iterates() -> None:
    threads: list[Any] = []

    class Loader:
        def __len__(self) -> int:
            return 2

        def __iter__(self) -> Iterator[Any]:
            threads.append(threading.current_thread())
            return iter([np.zeros(1), np.ones(1)])

    loader = unidev.prefetch(Loader(), "cpu")
    assert threads == []
    assert len(loader) == 2
    assert len(list(loader)) == 2
    assert threads == [threading.current_thread()]
    unsized = unidev.prefetch(numbered(2), "cpu")
    assert not hasattr(unsized, "__len__")
    assert bool(unsized)


def test_the_thread_has_the_backend_the_device_the_traces_and_the_guards() -> None:
    def moving() -> Iterator[Any]:
        for _ in range(3):
            x = unidev.ones(2)
            yield str(unidev.device_of(x)), unidev.active_backend().name, np.zeros(2)

    with unidev.use_backend("numpy"), unidev.gpu(1), unidev.trace_transfers() as trace:
        found = [each[:2] for each in unidev.prefetch(moving(), "gpu:0")]
    assert found == [("gpu:1", "numpy")] * 3
    assert [each.operation for each in trace.transfers] == ["prefetch"] * 3
    (line,) = trace.by_line()
    assert line.line.source.startswith("found = [")
    assert {each.thread for each in trace.transfers} == {READS_AHEAD}

    def reading() -> Iterator[Any]:
        x = unidev.ones(2, device="gpu:0")
        yield unidev.to_numpy(x)

    with (
        unidev.transfer_guard("forbid"),
        pytest.raises(unidev.TransferForbiddenError, match="to_numpy"),
    ):
        list(unidev.prefetch(reading(), "gpu:0"))


def test_a_trace_that_ends_first_has_no_more() -> None:
    batches = iter(unidev.prefetch(numbered(10), "gpu:0", depth=1))
    with unidev.trace_transfers() as trace:
        assert len(list(itertools.islice(batches, 2))) == 2
    with unidev.trace_transfers() as trace:
        others = iter(unidev.prefetch(numbered(10), "gpu:0", depth=1))
        next(others)
    count = trace.count
    assert count in (1, 2)
    assert len(list(others)) == 9
    assert trace.count <= 3
    assert len(list(batches)) == 8


def test_a_backend_may_say_how_a_loader_of_its_framework_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Loader(np.ndarray):
        """Of the framework, by its base."""

    def backwards(batches: Any) -> Iterator[Any]:
        return reversed(batches) if isinstance(batches, Loader) else iter(batches)

    backend = unidev.active_backend()
    monkeypatch.setattr(type(backend), "batch_iterator", staticmethod(backwards))
    rows = np.arange(6.0).reshape(3, 2)
    found = {
        kind: [each[0].item() for each in unidev.prefetch(rows.view(kind), "gpu:0")]
        for kind in (np.ndarray, Loader)
    }
    assert found == {np.ndarray: [0, 2, 4], Loader: [4, 2, 0]}


def test_what_is_no_loader_and_no_depth_is_refused() -> None:
    for depth in (0, -1, 1.5, "2", None, True):
        with pytest.raises(unidev.InvalidDataError, match="positive integer"):
            unidev.prefetch([], "cpu", depth=depth)  # type: ignore[arg-type]
    with pytest.raises(unidev.InvalidDataError, match="batches to iterate over"):
        unidev.prefetch(3, "cpu")  # type: ignore[arg-type]
    for scalar in (np.float16(1), np.ones(())):  # which have `__getitem__`, or even `__iter__`
        with pytest.raises(unidev.InvalidDataError, match="cannot iterate over"):
            iter(unidev.prefetch(scalar, "cpu"))
    assert next(iter(unidev.prefetch(range(10**30), "cpu"))) == 0  # longer than `len` can say


def test_python_ends_while_a_thread_reads_ahead(run_python) -> None:
    assert "done" in run_python(
        """
        import itertools, numpy as np, unidev
        batches = iter(unidev.prefetch((np.zeros(2) for _ in itertools.count()), "cpu"))
        next(batches)
        print("done")
        """
    )


def test_the_next_batch_in_a_forked_child_is_an_error(run_python: RunPython) -> None:
    printed = run_python(
        """
        import os, signal, warnings, numpy as np, unidev
        warnings.simplefilter("ignore", DeprecationWarning)  # of Python 3.12, about such forks
        batches = iter(unidev.prefetch([np.zeros(2)] * 9, "cpu"))
        next(batches)
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            try:
                next(batches)
            except unidev.UnsupportedOperation as error:
                print(error)
            print(len(list(unidev.prefetch([np.zeros(2)] * 9, "cpu"))), flush=True)
            del batches  # waits for no thread
            raise SystemExit(7)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), len(list(batches)))
        """
    )
    assert "next() of prefetch in a forked child is not supported" in printed
    assert printed.splitlines()[-2:] == ["9", "7 8"]


def test_a_loader_that_forks_is_let_go_with_the_loop(run_python: RunPython) -> None:
    printed = run_python(
        """
        import gc, os, threading, numpy as np, unidev
        class Loader:
            def __iter__(self):
                child = os.fork()
                if not child:
                    os._exit(0)
                os.waitpid(child, 0)
                return iter([np.zeros(2)] * 9)
        gc.disable()
        for _ in unidev.prefetch(Loader(), "cpu"):
            break
        print([each.name for each in threading.enumerate()])
        """
    )
    assert printed.strip() == "['MainThread']"


@pytest.mark.slow
def test_loaders_that_block_for_ever_hold_up_the_end_of_python_for_seconds_together(
    run_python,
) -> None:
    # 60 times the 5 seconds would be 300, after which `run_python` gives up.
    assert (
        run_python(
            """
        import threading, numpy as np, unidev
        def batches():
            yield np.zeros(1)
            threading.Event().wait()
        loops = [iter(unidev.prefetch(batches(), "cpu")) for _ in range(60)]
        print([next(each)[0] for each in loops].count(0))
        """
        )
        == "60"
    )
