"""What must hold for the engine of every framework; its plugin's tests call these."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

import psutil
from engine_runs import started
from two_hosts import two_hosts

import unidev
from unidev.registry.loading import load_backend

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from two_hosts import Host


class Found(NamedTuple):
    """What is left to judge for a plugin."""

    exchanged: set[str]
    """``sum of float32`` and the like."""
    listens: list[set[str]]
    """The addresses on which each rank listens, and after them each helper."""
    helpers: list[int | None]
    """Their exit statuses soon after all workers have left; None for one that is still there."""


def check_engine(
    backend: str,
    size: int,
    folder: Path,
    device: str = "cpu",
    *,
    has_folder: bool = True,
    hosts: Sequence[Host] = (),
    **environment: str,
) -> Found:
    """Exact values of all that it carries, the same bits on all ranks; ``leave`` does not wait.

    Many exchanges one after another, of sizes that come again, do not mix.
    """
    with started(
        backend, "everything", size, folder, device=device, has_folder=has_folder, hosts=hosts,
        **environment,
    ) as run:  # fmt: skip
        run.wait_for(0)
        assert [each.poll() for each in run.workers[1:]] == [None] * (size - 1), run.output()
        helpers = [addresses(each.pid) for each in run.helpers]
        (folder / "go").touch()
        found = run.answers()
        time.sleep(1 if run.helpers else 0)
        statuses = [each.poll() for each in run.helpers]
    assert not any(each["wrong"] for each in found), found[0]["wrong"][:9]
    assert not any(each["mixed"] for each in found), found[0]["mixed"][:9]
    assert all(each["digests"] == found[0]["digests"] for each in found)
    exchanged = {what.partition(" (")[0] for what in found[0]["digests"]}
    return Found(exchanged, [set(each["listens"]) for each in found] + helpers, statuses)


def check_two_hosts(backend: str, folder: Path) -> None:
    """``check_engine`` between two hosts whose names resolve to loopback."""
    with two_hosts(folder) as hosts:
        check_engine(backend, 2, folder, has_folder=False, hosts=hosts, UNIDEV_SIMULATE="0")


def addresses(pid: int) -> set[str]:
    """Those on which the process listens."""
    found = psutil.Process(pid).net_connections("tcp")
    return {each.laddr.ip for each in found if each.status == psutil.CONN_LISTEN}


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


def check_run(backend: str, engine: str) -> None:
    """``unidev.run`` of two workers exchanges by this engine, from more than 4 MiB on."""
    import engine_samples

    run = unidev.run(engine_samples.exchanged_both_ways, workers=2, backend=backend)
    for found, carried in run:
        assert carried == [(1 << 20, 2)]
        assert found == {
            "engines": [engine],
            "sum": [[3.0, 3.0], [1, 4], []],
            "half": [450.0, 450.0],
            "large": [3.0],
            "broadcast": [1.0, 1.0],
            "gathered": [[False], [True]],
        }


def after_a_death(
    backend: str, folder: Path, wait_s: float = 90, *, has_folder: bool = True
) -> tuple[str | None, list[int]]:
    """What rank 0 answered after rank 1 was killed, or ``joined``; statuses of the helpers.

    Those are None for one that is still there.
    """
    with started(
        backend, "be_killed", 2, folder, has_folder=has_folder, timeout_s=20, UNIDEV_SIMULATE="0"
    ) as run:
        run.wait_for(1)
        end = time.monotonic() + wait_s
        while run.workers[0].poll() is None and time.monotonic() < end:
            time.sleep(0.1)
        return run.answer(0), [each.poll() for each in run.helpers]
