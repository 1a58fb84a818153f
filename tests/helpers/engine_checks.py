"""What must hold for the engine of every framework; its plugin's tests call these."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import psutil
from two_hosts import two_hosts

import unidev
from unidev.backends.discovery import backend_specs
from unidev.backends.loading import load_backend
from unidev.contract import Arrangement, Rendezvous
from unidev.contract.optional import Unsupported, import_named
from unidev.system.host.ports import LOOPBACK, free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from two_hosts import Host

    from unidev.contract import GroupSetting

WORKER = Path(__file__).with_name("engine_worker.py")
LIMIT_S = 240.0


class EngineRun:
    """The processes of one run, and what they answered."""

    def __init__(self, folder: Path, workers: list[Any], helpers: list[Any]) -> None:
        self.folder = folder
        self.workers: list[subprocess.Popen[bytes]] = workers
        self.helpers: list[subprocess.Popen[bytes]] = helpers

    def answers(self, limit_s: float = LIMIT_S) -> list[Any]:
        """What each worker answered, once all have ended well; their output if one did not."""
        end = time.monotonic() + limit_s
        for rank in range(len(self.workers)):
            self.wait_for(rank, max(0.1, end - time.monotonic()))
        codes = [worker.returncode for worker in self.workers]
        assert not any(codes), f"exit statuses {codes}:\n{self.output()}"
        return [self.answer(rank) for rank in range(len(self.workers))]

    def wait_for(self, rank: int, limit_s: float = LIMIT_S) -> None:
        """Until the worker has ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.workers[rank].wait(limit_s)
        assert self.workers[rank].poll() is not None, f"rank {rank} is there:\n{self.output()}"

    def answer(self, rank: int) -> Any:
        """What the worker has answered by now, or None."""
        file = self.folder / f"answer{rank}"
        return json.loads(file.read_text()) if file.exists() else None

    def output(self) -> str:
        """The last lines of each process."""
        files = sorted(self.folder.glob("*.txt"))
        return "\n".join(
            f"-- {file.stem}\n{file.read_text(errors='replace')[-3000:]}" for file in files
        )


def setting_of(backend: str) -> GroupSetting | None:
    """What the plugin needs from a launcher."""
    found = backend_specs()[backend].group_setting
    if isinstance(found, Unsupported):
        return None
    made = import_named(found, "group_setting") if isinstance(found, str) else found
    setting: GroupSetting = made()
    return setting


@contextlib.contextmanager
def started(
    backend: str,
    task: str,
    size: int,
    folder: Path,
    *,
    device: str = "cpu",
    has_folder: bool = True,
    timeout_s: float = 60.0,
    hosts: Sequence[Host] = (),
    **environment: str,
) -> Iterator[EngineRun]:
    """``size`` workers that do ``task`` of ``engine_worker``; what is left at the end is killed.

    With ``hosts``, one on each of them.
    """
    setting = setting_of(backend)
    [ports] = free_ports([size + (0 if setting is None else setting.helper_ports)])
    common = folder / "common"
    common.mkdir()
    rendezvous = Rendezvous(
        hosts=tuple(host.address for host in hosts) or (LOOPBACK,) * size,
        ports=tuple(ports[:size]),
        helper_ports=tuple(ports[size:]),
        folder=common if has_folder else None,
        timeout_s=timeout_s,
    )
    plan = Arrangement(({},) * size) if setting is None else setting.prepare(rendezvous)
    outer = {**os.environ, "UNIDEV_BACKEND": backend, **environment}
    run = EngineRun(folder, [], [])
    try:
        for helper in plan.helpers:
            run.helpers.append(
                _process(
                    folder / f"{helper.name}.txt",
                    helper.arguments,
                    {**outer, **helper.environment},
                    hosts[0] if hosts else None,
                )
            )
        for rank in range(size):
            order = {
                "backend": backend, "task": task, "rank": rank,
                "device": device.format(rank=rank),
                "hosts": rendezvous.hosts, "ports": rendezvous.ports,
                "helper_ports": rendezvous.helper_ports, "timeout_s": timeout_s,
                "folder": str(common) if has_folder else None,
                "answer": str(folder / f"answer{rank}"),
            }  # fmt: skip
            run.workers.append(
                _process(
                    folder / f"rank {rank}.txt",
                    (str(WORKER), json.dumps(order)),
                    {**outer, **plan.environment[rank]},
                    hosts[rank] if hosts else None,
                )
            )
        yield run
    finally:
        for process in (*run.workers, *run.helpers):
            process.kill()
            process.wait()


def _process(
    output: Path, arguments: tuple[str, ...], environment: dict[str, str], host: Host | None
) -> subprocess.Popen[bytes]:
    words = [sys.executable, *arguments]
    with output.open("wb") as file:
        return subprocess.Popen(
            words if host is None else host.command(*words), env=environment, stdout=file,
            stderr=file, stdin=subprocess.DEVNULL,
        )  # fmt: skip


# -- checks ----------------------------------------------------------------------------------------


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

    import engine_samples  # computes something

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


def after_a_death(backend: str, folder: Path) -> str | None:
    """What rank 0 answered after rank 1 was killed, or ``joined``."""
    with started(backend, "be_killed", 2, folder, timeout_s=20, UNIDEV_SIMULATE="0") as run:
        run.wait_for(1)
        end = time.monotonic() + 90
        while run.workers[0].poll() is None and time.monotonic() < end:
            time.sleep(0.1)
        answer: str | None = run.answer(0)
        return answer
