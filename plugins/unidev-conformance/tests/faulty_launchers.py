"""Launchers with one fault each, which the checks of ``unidev conform --launcher`` must find."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from typing import Any

from subprocess_launcher import Agent

from unidev.contract import Ended, Frame, LauncherSpec, Output, hookimpl


class ForgetsTheEnvironment(Agent):
    """Its workers have their host's variables only."""

    def start(self, jobs: Any, helpers: Any) -> None:
        super().start([job._replace(environment={}) for job in jobs], helpers)


class ForgetsTheOrder(Agent):
    """Output comes last line first."""

    def events(self, timeout_s: float) -> Any:
        found = super().events(timeout_s)
        printed = [each for each in found if isinstance(each.news, Output)]
        return [*printed[::-1], *(each for each in found if each not in printed)]


class ShowsAtTheEnd(Agent):
    """Output comes once a worker has ended."""

    def events(self, timeout_s: float) -> Any:
        held = vars(self).setdefault("held", [])
        found = super().events(timeout_s)
        held += [each for each in found if isinstance(each.news, Output)]
        found = [each for each in found if not isinstance(each.news, Output)]
        if any(isinstance(each.news, Ended) for each in found):
            found, held[:] = [*held, *found], []
        return found


class HidesTheEnd(Agent):
    """A process that has ended is only silent."""

    def events(self, timeout_s: float) -> Any:
        return [x for x in super().events(timeout_s) if not isinstance(x.news, Ended)]


class LosesMessages(Agent):
    """What workers send one another does not arrive."""

    def send(self, rank: int, frame: Frame) -> None:
        if frame.peer < 0:
            super().send(rank, frame)


class CallsAStoppedOneLate(Agent):
    """Nothing hinders any worker."""

    def hindrance(self, rank: int) -> None:
        return None


class LeavesAProcess(Agent):
    """A daemon beside its agent, which nobody ends."""

    def place(self, gpus: int) -> None:
        program = "import time; time.sleep(3600)"
        subprocess.Popen([sys.executable, "-c", program], start_new_session=True)
        super().place(gpus)


class LeavesAFolder(Agent):
    """A folder that nobody deletes."""

    def place(self, gpus: int) -> None:
        tempfile.mkdtemp()
        super().place(gpus)


class SwapsRanks(Agent):
    """News of worker 0 are said to be of worker 1, and the other way round."""

    def events(self, timeout_s: float) -> Any:
        return [
            each._replace(rank=1 - each.rank) if each.rank < 2 else each
            for each in super().events(timeout_s)
        ]


FAULTY = {
    ForgetsTheEnvironment: "environment",
    ForgetsTheOrder: "output",
    ShowsAtTheEnd: "output",
    HidesTheEnd: "killed",
    LosesMessages: "exchanges",
    CallsAStoppedOneLate: "stopped",
    LeavesAProcess: "ranks",
    LeavesAFolder: "ranks",
    SwapsRanks: "raised",
}
"""The check that finds each."""


class Registered:
    """A plugin, for ``UNIDEV_PLUGINS=faulty_launchers:NAME``."""

    def __init__(self, cls: type[Agent]) -> None:
        self._cls = cls

    @hookimpl
    def unidev_register_launcher(self) -> LauncherSpec:
        return LauncherSpec(name="faulty", contract_version=3, load=lambda: self._cls)


def __getattr__(name: str) -> Registered:
    for cls in FAULTY:
        if name == f"plugin_{cls.__name__}":
            return Registered(cls)
    raise AttributeError(name)
