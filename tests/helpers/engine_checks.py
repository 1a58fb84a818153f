"""What must hold for the engine of every framework; its plugin's tests call these."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import psutil
from engine_runs import started

from unidev.registry.loading import load_backend

if TYPE_CHECKING:
    from pathlib import Path


def check_exchange(
    backend: str, size: int, folder: Path, device: str = "cpu", **environment: str
) -> set[str]:
    """Exact, and the same bits on all ranks; returns the operations and dtypes exchanged."""
    with started(backend, "exchange", size, folder, device=device, **environment) as run:
        found = run.answers()
    assert not any(each["wrong"] for each in found), found[0]["wrong"][:9]
    assert all(each["digests"] == found[0]["digests"] for each in found)
    return {what.partition(" (")[0] for what in found[0]["digests"]}


def not_carried(backend: str) -> dict[str, set[str]]:
    """The dtypes that travel neither as they are nor in a wider one that is carried."""
    loaded = load_backend(backend)
    engine = loaded.group_engine
    found = {
        op: {
            name
            for name in loaded.dtypes
            if name not in names and engine.wider.get(name) not in names
        }
        for op, names in engine.carries.items()
    }
    assert set(found) == {"sum", "min", "max", "broadcast", "gather"}
    return found


def check_repeated(backend: str, size: int, folder: Path) -> None:
    """Many exchanges one after another, of sizes that come again, do not mix."""
    with started(backend, "repeat", size, folder, UNIDEV_SIMULATE="0") as run:
        assert run.answers() == [{}] * size


def listened_on(backend: str, folder: Path, *, has_folder: bool = True) -> list[set[str]]:
    """The addresses on which each rank listens, and after them each helper."""
    with started(backend, "listen", 2, folder, has_folder=has_folder, UNIDEV_SIMULATE="0") as run:
        answers = run.answers()
        helpers = [psutil.Process(each.pid).net_connections("tcp") for each in run.helpers]
    found = [set(each) for each in answers]
    return found + [
        {each.laddr.ip for each in connections if each.status == psutil.CONN_LISTEN}
        for connections in helpers
    ]


def check_leaving(backend: str, folder: Path) -> None:
    """``leave`` waits for no worker: rank 0 has ended before the others leave."""
    with started(backend, "leave_first", 3, folder, UNIDEV_SIMULATE="0") as run:
        run.workers[0].wait(60)
        assert [each.poll() for each in run.workers[1:]] == [None, None], run.output()
        assert run.answers() == ["left"] * 3


def after_a_death(backend: str, folder: Path, limit_s: float = 90) -> tuple[str | None, list[int]]:
    """What rank 0 answered after rank 1 was killed, or ``joined``; statuses of the helpers.

    Those are None for one that is still there.
    """
    with started(backend, "be_killed", 2, folder, timeout_s=20, UNIDEV_SIMULATE="0") as run:
        run.workers[1].wait(limit_s)
        end = time.monotonic() + limit_s
        while run.workers[0].poll() is None and time.monotonic() < end:
            time.sleep(0.1)
        return run.answer(0), [each.poll() for each in run.helpers]
