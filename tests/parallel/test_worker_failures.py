"""One worker fails: the error names the first one, in time, and nothing is left."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import odd_workers
import pytest
import run_samples
from marked_processes import LIMIT_S, marked

import unidev
from unidev.parallel.running import supervisor
from unidev.system.child_processes import end_group
from unidev.system.host.host import WorkerHost

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

pytestmark = [
    pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks processes up in /proc"),
    pytest.mark.usefixtures("mark"),
]


def failure(how: str, rank: int, **options: object) -> unidev.WorkerFailedError:
    with pytest.raises(unidev.WorkerFailedError) as caught:
        unidev.run(run_samples.failing, how, rank, workers=3, backend="numpy", **options)  # type: ignore[arg-type]
    assert caught.value.rank == rank
    assert f"worker {rank} on 127.0.0.1 " in str(caught.value)
    return caught.value


@pytest.mark.slow
@pytest.mark.parametrize("start", ["fork", "spawn"])
@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize(
    ("how", "words", "number"),
    [
        ("raises", "raised KeyError: 'the key that is not there'", None),
        ("thread", "raised KeyError: 'the key that is not there'", None),
        ("killed", "was killed by SIGKILL", "SIGKILL"),
        ("crashes", "was killed by SIGSEGV", "SIGSEGV"),
        ("exits", "ended with exit code 7", None),
        ("sys.exit", r"called sys.exit\('enough'\)", None),
        ("early", "returned after 3 collectives, while worker", None),
    ],
)
def test_the_worker_that_failed_first_is_named(
    how: str, words: str, number: str | None, rank: int, start: str
) -> None:
    import re

    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PYTHONUNBUFFERED", raising=False)  # what it printed is there without
        error = failure(how, rank, start=start)
    assert re.search(words, str(error))
    assert error.signal == number
    if how != "early":
        assert f"about to fail: {how}" in error.output


def test_the_workers_own_traceback_is_in_the_error() -> None:
    assert "in _raise" in failure("raises", 1).traceback
    assert "in _crash" in failure("crashes", 1).traceback


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "words", "inside"),
    [
        (
            "unprintable",
            "raised UnprintableError: <its str() raised OSError>",
            "_raise_unprintable",
        ),
        ("stubborn exit", "called sys.exit(<run_samples.Stubborn>)", "in failing"),
        ("unpicklable exit", "called sys.exit(<_thread.lock>)", "in failing"),
        ("stdout closed", "raised KeyError: 'the key that is not there'", "in _raise"),
        ("stdout replaced", "raised KeyError: 'the key that is not there'", "in _raise"),
        ("no stdout", "raised KeyError: 'the key that is not there'", "in _raise"),
    ],
)
def test_an_error_arrives_whatever_it_and_stdout_are(how: str, words: str, inside: str) -> None:
    error = failure(how, 1)
    assert words in str(error)
    assert inside in error.traceback


@pytest.mark.parametrize("stdout", [None, 3])
def test_a_result_arrives_though_stdout_is_none(stdout: object) -> None:
    assert unidev.run(odd_workers.with_stdout, stdout, workers=2, backend="numpy") == [1, 1]


def test_a_result_that_cannot_be_unpickled_is_named_with_its_worker() -> None:
    with pytest.raises(unidev.InvalidDataError) as caught:
        unidev.run(odd_workers.stubborn_result, workers=2, backend="numpy")
    assert "the result of worker 1 cannot be unpickled" in str(caught.value)
    assert "invalid literal for int()" in str(caught.value)
    assert isinstance(caught.value.__cause__, ValueError)


def test_bytes_that_are_no_message_are_the_failure_of_their_worker() -> None:
    with pytest.raises(unidev.WorkerFailedError) as caught:
        unidev.run(odd_workers.writing_to_the_pipe_of_its_messages, workers=2, backend="numpy")
    assert caught.value.rank == 1
    assert "wrote to the pipe of its messages what is not one" in str(caught.value)


def test_a_child_that_prints_without_end_holds_up_nothing() -> None:
    program = (
        "import odd_workers, sys, unidev\n"
        "run = odd_workers.with_a_child_that_prints_without_end\n"
        "print(unidev.run(run, workers=2, backend='numpy'), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        text=True, check=True, timeout=LIMIT_S,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert done.stderr == "[1, 1]\n"


@pytest.mark.parametrize("what", ["a_thread", "an_exit_handler"])
def test_one_that_returns_and_does_not_exit_is_reported(
    what: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(supervisor, "_EXIT_S", 1.0)
    run = getattr(odd_workers, f"with_{what}_that_stays")
    assert unidev.run(run, workers=2, backend="numpy") == [0, 1]
    said = capsys.readouterr().err
    for rank in (0, 1):
        assert f"unidev: worker {rank} on 127.0.0.1 returned, but did not exit within 1 s" in said


@pytest.mark.parametrize(
    ("how", "code", "words"),
    [
        ("raises", 1, 'ValueError: invalid literal for int() with base 10: "the child\'s"'),
        ("exits", 3, ""),
        ("returns", 0, ""),
    ],
)
def test_a_fork_of_a_worker_ends_and_reports_nothing_of_its_own(
    how: str, code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = unidev.run(odd_workers.of_a_fork, how, workers=2, backend="numpy")
    assert found == [f"the child ended with {code}"] * 2
    assert words in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGKILL, signal.SIGTERM, signal.SIGHUP]
)  # fmt: skip
@pytest.mark.parametrize("by", ["run", "launch"])
def test_the_end_of_the_parent_ends_all(number: int, by: str, mark: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("import run_samples\n\nrun_samples.children_and_wait()\n")
    call = "unidev.run(run_samples.children_and_wait, backend='numpy')"
    words = {
        "run": ["-u", "-c", f"import run_samples, unidev; {call}"],
        "launch": ["-m", "unidev", "launch", "--backend", "numpy", str(program)],
    }
    parent = subprocess.Popen(
        [sys.executable, *words[by]],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # noqa: PLW1509  nohup ignores it
    )
    assert parent.stdout is not None
    assert "all there" in parent.stdout.readline()
    assert len(marked(mark)) >= 1 + 2 * 4  # and whatever watches over them
    parent.send_signal(number)
    _, err = parent.communicate(timeout=LIMIT_S)
    assert ("KeyboardInterrupt" in err) == (number == signal.SIGINT and by == "run")


def test_a_group_ends_though_ctrl_c_has_left_the_lock_of_poll_locked() -> None:
    # It lives until it is killed; should nobody do so, it is gone before long.
    words = [sys.executable, "-c", "import time; time.sleep(600)"]
    with subprocess.Popen(words, start_new_session=True) as process:
        process._waitpid_lock.acquire()  # type: ignore[attr-defined]  # as an interrupt in `poll`
        end_group(process)
        assert process.returncode == -signal.SIGKILL


@pytest.mark.slow
def test_ctrl_c_on_any_line_that_starts_a_worker_is_the_only_error_and_leaves_no_file() -> None:
    def run_until(is_reached: Callable[[int], object]) -> None:
        def see(frame: FrameType, event: str, _: object) -> Any:
            if frame.f_code is not WorkerHost._start_worker.__code__:
                return None
            if event == "line" and is_reached(frame.f_lineno):
                raise KeyboardInterrupt
            return see

        sys.settrace(see)
        try:
            unidev.run(run_samples.ranks, workers=2, backend="numpy")
        finally:
            sys.settrace(None)

    lines = dict[int, None]()
    run_until(lines.setdefault)
    gc.collect()  # what other tests have left
    before = len(os.listdir("/proc/self/fd"))
    for each in lines:
        with pytest.raises(KeyboardInterrupt):
            run_until(each.__eq__)
    gc.collect()  # what was opened on the line itself
    assert len(os.listdir("/proc/self/fd")) <= before
