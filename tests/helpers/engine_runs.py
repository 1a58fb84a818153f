"""Runs of an engine between processes, without ``unidev.run``: as a launcher would start them."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unidev.contract import Arrangement, Rendezvous
from unidev.contract.optional import Unsupported, import_named
from unidev.registry.discovery import backend_specs
from unidev.worker_host.ports import LOOPBACK, free_ports

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
