"""Functions that tests of ``unidev.run`` give to it: odd results, children, threads and pipes."""

from __future__ import annotations

import atexit
import gc
import logging
import os
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from glob import glob
from typing import Any

import numpy as np
import run_samples

import unidev


def echo(*given: Any) -> tuple[Any, ...]:
    return given


def printing(lines: int) -> None:
    for line in range(lines):
        print("out", line)
    print("err", file=sys.stderr)
    sys.stdout.write("no end")


def run_inside() -> None:
    unidev.run(run_samples.ranks)


def tensor_result() -> Any:
    return unidev.zeros(2, device="gpu:0")


def unpicklable_result() -> Any:
    return threading.Lock()


def stubborn_result() -> Any:
    return run_samples.Stubborn() if unidev.group().rank == 1 else 0


def with_stdout(stdout: Any) -> int:
    sys.stdout = stdout
    return 1


def writing_to_the_pipe_of_its_messages() -> None:
    from unidev.parallel.exchange import membership

    assert membership.current is not None
    if membership.current.rank == 1:
        os.write(membership.current.channel._writer._pipe, b"printed by a library" * 3)  # type: ignore
        time.sleep(3600)
    unidev.group().barrier()


def of_a_fork(how: str) -> str:
    """The worker's own result, once its forked child has ended, which ends in one of these ways."""
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        return f"the child ended with {os.waitstatus_to_exitcode(status)}"
    ways = {
        "raises": lambda: int("the child's"),
        "exits": lambda: sys.exit(3),
        "returns": lambda: None,
    }
    ways[how]()
    return "x" * 100_000


def with_a_child_that_prints_without_end() -> int:
    subprocess.Popen(["yes"])
    return 1


def with_a_thread_that_stays() -> int:
    threading.Thread(target=time.sleep, args=(3600,)).start()
    return unidev.group().rank


def with_an_exit_handler_that_stays() -> int:
    atexit.register(time.sleep, 3600)
    return unidev.group().rank


def is_framework_left_out_of_collections() -> bool:
    """Whether collections of this worker look at what was there before its function."""
    here = {id(each) for each in gc.get_objects()}
    return gc.get_freeze_count() > 1000 and id(vars(unidev)) not in here


def surroundings() -> dict[str, Any]:
    """What this process was given, without what differs in each."""
    files = [os.readlink(each) for each in glob("/proc/self/fd/*") if os.path.lexists(each)]
    streams = (sys.stdin, sys.stdout, sys.stderr)
    names = ("encoding", "errors", "line_buffering", "write_through", "name")
    return {
        "rank": unidev.group().rank,
        "argv": sys.argv,
        "path": sys.path,
        "folder": os.getcwd(),
        "files": sorted(re.sub(r"\d+", "", each) for each in files),
        "streams": [[getattr(each, name) for name in names] for each in streams],
        "input": sys.stdin.read(),
        "signals": [str(signal.getsignal(each)) for each in range(1, 32)],
        "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
        "leads": os.getsid(0) == os.getpid(),
        "threads": sorted(each.name for each in threading.enumerate()),
        "environment": {**os.environ, "UNIDEV_RUN_MARKS": ""},
        "main": sorted(vars(sys.modules["__main__"])),
        "handlers": [atexit._ncallbacks(), logging.root.handlers, gc.isenabled()],
        "warnings": [str(each) for each in warnings.filters],
        "limits": [resource.getrlimit(each) for each in range(16)],
    }


def drawn() -> tuple[float, float, str, int]:
    """Numbers that each process draws, and its parent's."""
    mine = unidev.to_numpy(unidev.rand(1))[0]
    return random.random() + float(mine), np.random.rand(), tempfile.mktemp(), os.getppid()


def printing_at_exit() -> None:
    print("now")
    atexit.register(print, "at exit")


def killing_the_parent() -> None:
    if unidev.group().rank == 1:
        os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(3600)
