"""Children of the conformance suite, forked from a process that has imported what each needs."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from typing import TYPE_CHECKING
from unittest import mock

import pytest
from mutants_in_workers import ask_no_more

from unidev_conformance.events import End, EventReader, Session, Start
from unidev_conformance.running.child import Order, command, environment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from multiprocessing.context import BaseContext
    from multiprocessing.process import BaseProcess
    from pathlib import Path

LIMIT_S = 600.0
AT_ONCE = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def children() -> BaseContext:
    """How children are started: forked from a process that is warm, where processes can fork.

    macOS forks too, but its own libraries do not bear it. There, and on Windows, each child imports
    everything by itself.
    """
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["conformance_warm"])
    variables = {
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),  # `sys.path` is not handed on
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    with mock.patch.dict(os.environ, variables):
        from multiprocessing import forkserver  # not on Windows

        forkserver.ensure_running()
    return context


@dataclass(frozen=True, kw_only=True)
class Job:
    """A child to start."""

    order: Order
    variables: dict[str, str]
    """More of the environment, such as ``UNIDEV_PLUGINS``."""


@dataclass
class ChildResult:
    """What a child told."""

    results: dict[str, str] = field(default_factory=dict)
    """By check; ``unfinished`` for one that was started and did not end."""
    messages: dict[str, str] = field(default_factory=dict)
    required: set[str] = field(default_factory=set)
    """Required checks of the profile, whether they were asked for or not."""
    output: str = ""

    def described(self, check: str) -> str:
        """For the message of an assertion."""
        said = self.messages.get(check, "") or self.output[-3000:]
        return f"{check}: {self.results.get(check, 'not run')}: {said}"


def run_all(jobs: Mapping[str, Job], folder: Path) -> dict[str, ChildResult]:
    """Run each job in a process and a folder of its own, as many at once as there are cores."""
    context, waiting = children(), list(jobs)
    running: dict[str, tuple[BaseProcess, float]] = {}
    while waiting or running:
        while waiting and len(running) < AT_ONCE:
            name = waiting.pop(0)
            running[name] = _started(context, jobs[name], folder / name), time.monotonic() + LIMIT_S
        wait([process.sentinel for process, _ in running.values()], timeout=1)
        for name, (process, end) in list(running.items()):
            if time.monotonic() > end:
                process.kill()
                process.join()
            if not process.is_alive():
                del running[name]
    return {name: result_in(folder / name) for name in jobs}


def mutant_job(
    name: str, only: Sequence[str], simulated: int, *, backend: str = "", profile: str = "tensor"
) -> Job:
    """The job for a plugin of ``mutants``; it runs the checks ``only``."""
    order = Order(
        backend=backend or f"mutant_{name}",
        profile=profile,
        simulated=simulated,
        only=tuple(only) or None,
    )
    variables = {"UNIDEV_PLUGINS": f"mutants:{name}", "UNIDEV_DISABLED_PLUGINS": "numpy"}
    return Job(order=order, variables=variables)


def _started(context: BaseContext, job: Job, folder: Path) -> BaseProcess:
    folder.mkdir(parents=True)
    # Where CI is set, pytest can explain what differs at any length.
    given = {**os.environ, "CI": "true", **job.variables}
    variables = environment(job.order.simulated, given, folder)
    process = context.Process(target=judge, args=(job.order, variables, folder))
    process.start()
    return process


def judge(order: Order, variables: Mapping[str, str], folder: Path) -> None:
    """In a child: run pytest as ``python -m pytest`` of these variables would."""
    output = os.open(folder / "output.txt", os.O_WRONLY | os.O_CREAT)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.environ.clear()
    os.environ.update(variables)
    words = arguments(order, folder)
    ask_no_more(order.only)
    os.chdir(folder / "cwd")
    sys.exit(pytest.main(words))


def arguments(order: Order, folder: Path) -> list[str]:
    """pytest's, for a run in ``folder / "cwd"``, which is made, and empty."""
    root = folder / "cwd"
    root.mkdir(parents=True)
    ini = folder / "neutral.ini"
    ini.write_text("[pytest]\naddopts =\n", encoding="utf-8")
    _python, _m, _pytest, *words = command(
        order, ini=ini, root=root, events=folder / "events.jsonl"
    )
    return [*words, "--tb=native"]  # pytest's own takes as long as a check does


def result_in(folder: Path) -> ChildResult:
    """What the child told that ran in ``folder``."""
    output = folder / "output.txt"
    told = ChildResult(output=output.read_text(errors="replace") if output.exists() else "")
    for event in EventReader(folder / "events.jsonl").read():
        if isinstance(event, Session):
            told.required = {each.check for each in event.checks if each.required}
        elif isinstance(event, Start):
            told.results[event.check] = "unfinished"
        elif isinstance(event, End):
            told.results[event.check] = event.result
            told.messages[event.check] = event.message
    return told
