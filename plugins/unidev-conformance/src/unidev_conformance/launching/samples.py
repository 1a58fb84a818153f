"""What workers do in the checks of launchers; they import it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import unidev

WAITING = "waiting here"
LINES = 200
LARGE = 1 << 19
"""Numbers of 8 bytes in an array of 4 MiB, which fills pipes many times."""
_MOST_S = 3600.0


def rank_and_size() -> tuple[int, int]:
    """This worker's own; those of higher ranks return first."""
    group = unidev.group()
    time.sleep(0.2 * (group.size - group.rank))
    return group.rank, group.size


def echo(*given: Any) -> tuple[Any, ...]:
    """The arguments."""
    return given


def exchanged(*, by_messages: bool) -> dict[str, Any]:
    """Sums and broadcasts, small ones and large ones, as plain values."""
    if by_messages:  # as between hosts, in messages that the launcher carries
        from unidev.parallel.exchange import membership

        own: Any = membership.current
        own.channel.memory = None
    group = unidev.group()
    large = np.arange(LARGE, dtype=np.float64) + group.rank
    found = {
        "sums": [
            float(group.all_reduce(np.array([k + group.rank], np.float64))[0]) for k in range(50)
        ],
        "gathered": [int(x[0]) for x in group.all_gather(np.array([group.rank]))],
        "large sum": group.all_reduce(large)[:: LARGE - 1].tolist(),
        "large": group.broadcast(large, group.size - 1)[:: LARGE - 1].tolist(),
    }
    group.barrier()
    return found


def differing() -> str:
    """The error of a collective that the workers do not call alike."""
    group = unidev.group()
    try:
        group.all_reduce(np.ones(2 + group.rank))
    except unidev.InvalidDataError as error:
        group.barrier()  # the group is still of use
        return str(error)
    return "no error"


def the_one_that_fails(how: str) -> None:
    """Worker 1 fails in one of several ways, while the others wait for it."""
    group = unidev.group()
    group.barrier()
    if group.rank == 1:
        sys.stdout.flush()
        if how == "raises":
            raise KeyError("the key that is not there")
        if how == "exits":
            os._exit(7)
        if how == "sleeps":
            time.sleep(_MOST_S)
        os.kill(os.getpid(), getattr(signal, how))
    group.barrier()


def print_lines(flag: str) -> None:
    """Lines on both streams; the last ones only once the first have been seen."""
    for number in range(LINES):
        print("line", number, "\u00e9")  # noqa: T201
    print("on stderr", file=sys.stderr)  # noqa: T201
    print(WAITING, flush=True)  # noqa: T201
    until = time.monotonic() + 30
    while not Path(flag).exists():
        if time.monotonic() > until:
            raise TimeoutError("what this worker has printed was not shown while it ran")
        time.sleep(0.02)
    sys.stdout.write("no end")


def with_children() -> None:
    """Start a child, and one in a session of its own; then wait until the worker is ended."""
    start_children()
    unidev.group().barrier()
    if unidev.group().rank == 0:
        print(WAITING, flush=True)  # noqa: T201
    time.sleep(_MOST_S)


def start_children() -> None:
    """Processes that do not end by themselves."""
    for is_apart in (False, True):
        subprocess.Popen(  # noqa: S603  our own interpreter
            [sys.executable, "-c", f"import time; time.sleep({_MOST_S})"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=is_apart,
        )  # fmt: skip


def environment(names: tuple[str, ...]) -> dict[str, str | None]:
    """Variables of this worker."""
    return {name: os.environ.get(name) for name in names}


def gpus() -> tuple[list[str], str | None]:
    """The GPUs that this worker sees, and the number of its first one among those of all."""
    return [str(each) for each in unidev.try_all_gpus()], os.environ.get("UNIDEV_SIMULATE_FIRST")
