"""Functions that tests give to ``unidev.run``; workers import them."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil

import unidev


def ranks() -> tuple[int, int, str]:
    group = unidev.group()
    return group.rank, group.size, str(group.device)


def seen_gpus() -> dict[str, Any]:
    """The devices, what is said of one beyond them, and the variables that hide the others."""
    beyond = str(len(unidev.try_all_gpus()) if unidev.group().device.kind == "gpu" else 0)
    try:
        heard = str(unidev.as_device(f"gpu:{beyond}"))
    except unidev.DeviceNotFoundError as error:
        heard = str(error)
    names = [name for name in os.environ if "VISIBLE" in name or name.startswith("UNIDEV_SIM")]
    return {
        "devices": [str(each) for each in unidev.try_all_gpus()],
        "beyond": heard,
        "variables": {name: os.environ[name] for name in names},
    }


def until_the_link_is_cut(flag: str) -> None:
    """Exchange for ever; the first exchange is noted by a file."""
    group = unidev.group()
    while True:
        group.all_reduce(unidev.ones(1))
        Path(flag).touch()
        time.sleep(0.1)


def summed_on(backend: str) -> tuple[str, list[float]]:
    """This host's name, and a sum over all workers."""
    unidev.set_backend(backend)
    total = unidev.group().all_reduce(unidev.ones(2))
    return socket.gethostname(), unidev.to_numpy(total).tolist()


def everything() -> dict[str, Any]:
    """Each collective, with values that depend on the rank."""
    group = unidev.group()
    rank = group.rank
    w = unidev.array(np.arange(3, dtype=np.float32) + rank)
    tree = {"w": w, "again": w, "n": unidev.array([7 - rank, rank]), "name": "x"}
    kept = unidev.copy_to(w, "cpu")
    found = {
        "sum": group.all_reduce(tree),
        "mean": group.all_reduce(w, "mean"),
        "min": group.all_reduce(tree, "min")["n"],
        "max": group.all_reduce(tree, "max")["n"],
        "weighted": group.all_reduce(w, "mean", weights=rank + 1),
        "listed": group.all_reduce(w, "mean", weights=[1.0] + [3.0] * (group.size - 1)),
        "broadcast": group.broadcast(tree, group.size - 1),
        "gathered": group.all_gather([w, unidev.zeros((0, 2))]),
        "empty": group.all_reduce(unidev.zeros((2, 0))),
        "rows": group.split_batch({"x": unidev.arange(5)}),
        "half": group.all_reduce(unidev.full(2, 300.0, dtype="float16"), "mean"),
        "bool": group.broadcast(unidev.array([rank == 0])),
    }
    group.barrier()
    found["is_kept"] = bool((unidev.to_numpy(w) == unidev.to_numpy(kept)).all())
    found["is_tied"] = found["sum"]["w"] is found["sum"]["again"]
    large = unidev.full((3, 1 << 20), 1.0 + rank)
    other = large[:, ::2]
    found["in_place"] = group.all_reduce({"a": large, "b": w}, in_place=True)["a"] is large
    found["large"] = float(unidev.to_numpy(other).max()), float(unidev.to_numpy(large).min())
    found["w"] = w
    found["memory"] = "memfd:unidev" in Path("/proc/self/maps").read_text()
    return _plain(found)


def alone() -> dict[str, Any]:
    """Each collective of a group of one."""
    group = unidev.group()
    x = unidev.array([1.5, 2.5], device=group.device)
    found = {
        "sum": group.all_reduce(x),
        "mean": group.all_reduce({"x": x}, "mean", weights=3.0)["x"],
        "broadcast": group.broadcast(x),
        "gathered": group.all_gather(x)[0],
        "rows": group.gather_rows(x),
    }
    group.barrier()
    return {name: each.tolist() for name, each in _plain(found).items()}


def _plain(tree: Any) -> Any:
    return unidev.device_get(tree)


# -- failures --------------------------------------------------------------------------------------


def failing(how: str, rank: int = 1, steps: int = 3) -> str:
    """Some exchanges; then the worker ``rank`` fails, and the others go on."""
    group = unidev.group()
    x = unidev.ones(10)
    for step in range(steps + 3):
        if step == steps and group.rank == rank:
            print("about to fail:", how)
            _FAILURES[how]()
            return "early"
        group.all_reduce(x)
    return "done"


def _raise() -> None:
    raise KeyError("the key that is not there")


def _crash() -> None:
    sys.stdout.flush()
    ctypes.string_at(0)


def _stop() -> None:
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGSTOP)


def _kill() -> None:
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)


def _sleep_where_all_can_see() -> None:
    time.sleep(3600)


def _thread() -> None:
    """A worker that raises while a thread of its own does not end."""
    threading.Thread(target=time.sleep, args=(3600,)).start()
    _raise()


class Stubborn:
    """Pickles, and raises when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return int, ("not a number",)


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise OSError("no words")


def _raise_unprintable() -> None:
    raise UnprintableError


def _raise_with_stdout(stdout: Any) -> None:
    sys.stdout = stdout
    _raise()


def _raise_with_stdout_closed() -> None:
    sys.stdout.close()
    _raise()


_FAILURES = {
    "raises": _raise,
    "crashes": _crash,
    "killed": _kill,
    "stopped": _stop,
    "late": _sleep_where_all_can_see,
    "exits": lambda: os._exit(7),
    "sys.exit": lambda: sys.exit("enough"),
    "early": lambda: None,
    "unprintable": _raise_unprintable,
    "stubborn exit": lambda: sys.exit(Stubborn()),  # type: ignore[arg-type]
    "unpicklable exit": lambda: sys.exit(threading.Lock()),  # type: ignore[arg-type]
    "stdout closed": _raise_with_stdout_closed,
    "stdout replaced": lambda: _raise_with_stdout(object()),
    "no stdout": lambda: _raise_with_stdout(None),
    "thread": _thread,
}


def differing(how: str) -> str:
    """Workers that do not exchange the same; each returns the error that it gets."""
    group = unidev.group()
    first = group.rank == 0
    two = unidev.ones(3), unidev.ones((1, 3))
    for known in (list(two), list(two[::-1])):
        group.all_reduce(known)

    def weighed(*lists: Any) -> Any:
        return group.all_reduce(unidev.ones(3), "mean", weights=lists[0 if first else -1])

    calls = {
        "shape": lambda: group.all_reduce(unidev.ones(3 if first else 2)),
        "dtype": lambda: group.all_reduce(unidev.ones(3, dtype="float32" if first else "float64")),
        "structure": lambda: group.all_reduce({"a" if first else "b": unidev.ones(3)}),
        "order": lambda: group.all_reduce(list(two if first else two[::-1])),
        "operation": lambda: group.all_reduce(unidev.ones(3), "sum" if first else "max"),
        "mean": lambda: group.all_reduce(unidev.ones(3), "sum" if first else "mean"),
        "weights": lambda: weighed([1.0] * group.size, [2.0] * group.size),
        "kind of weights": lambda: weighed([1.0] * group.size, 1.0),
        "call": lambda: (group.all_reduce if first else group.broadcast)(unidev.ones(3)),
        "root": lambda: group.broadcast(unidev.ones(3), group.rank),
        "nothing": lambda: group.all_reduce(unidev.ones((0, 3) if first else (3, 0))),
        "barrier": lambda: group.barrier() if first else group.all_gather(unidev.ones(3)),
        "one is new": lambda: group.all_reduce(two[0] if not first else list(two)),
    }
    try:
        calls[how]()
    except unidev.InvalidDataError as error:
        group.barrier()  # the group is still of use
        return str(error)
    return "no error"


DIFFERENCES = (
    "shape", "dtype", "structure", "order", "operation", "mean", "weights", "kind of weights",
    "call", "root", "nothing", "barrier", "one is new",
)  # fmt: skip


def all_differences() -> dict[str, str]:
    """What each worker hears of every one of them, one after the other."""
    return {how: differing(how) for how in DIFFERENCES}


def with_a_child_in_a_session_of_its_own() -> None:
    subprocess.Popen(_SLEEP, start_new_session=True)


_SLEEP = [sys.executable, "-c", "import time; time.sleep(3600)"]


def children_and_wait() -> None:
    """Workers with children of three kinds."""
    subprocess.Popen(_SLEEP)
    with_a_child_in_a_session_of_its_own()
    if os.fork() == 0:
        time.sleep(3600)
    unidev.group().barrier()
    print("all there", flush=True)
    time.sleep(3600)


def node_and_sum() -> tuple[int, float]:
    """The daemon of the Ray node that has started this worker's actor, and a sum over all."""
    group = unidev.group()
    total = group.all_reduce(unidev.full(1, group.rank + 1.0))
    return psutil.Process(os.getppid()).ppid(), float(unidev.to_numpy(total)[0])
