"""Children of the conformance suite, as its parent starts them, two at a time."""

from __future__ import annotations

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from unidev.conformance.running.child import Order, command, environment
from unidev.conformance.running.events import End, EventReader, Session, Start

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

AT_ONCE = 2
LIMIT_S = 120.0


@dataclass(frozen=True, kw_only=True)
class Job:
    """A child to start."""

    order: Order
    variables: dict[str, str]
    """More of the environment, such as ``UNIDEV_PLUGINS``."""


@dataclass
class Told:
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


def run_all(jobs: dict[str, Job], folder: Path) -> dict[str, Told]:
    """Run each job in a process and a folder of its own."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        told = pool.map(lambda item: _run(item[1], folder / item[0]), jobs.items())
        return dict(zip(jobs, told, strict=True))


def mutant_job(
    name: str,
    only: Sequence[str],
    simulated: int,
    *,
    backend: str = "",
    profile: str = "tensor",
) -> Job:
    """The job for a plugin of ``unidev.conformance.mutants``; it runs the checks ``only``."""
    order = Order(
        backend=backend or f"mutant_{name}",
        profile=profile,
        simulated=simulated,
        only=tuple(only) or None,
    )
    variables = {
        "UNIDEV_PLUGINS": f"unidev.conformance.mutants:{name}",
        "UNIDEV_DISABLED_PLUGINS": "numpy",
    }
    return Job(order=order, variables=variables)


def _run(job: Job, folder: Path) -> Told:
    root = folder / "cwd"
    root.mkdir(parents=True)
    ini, events = folder / "neutral.ini", folder / "events.jsonl"
    ini.write_text("[pytest]\naddopts =\n", encoding="utf-8")
    done = subprocess.run(
        command(job.order, ini=ini, root=root, events=events),
        env=environment(job.order.simulated, {**os.environ, **job.variables}),
        cwd=root,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=LIMIT_S,
        check=False,
    )
    told = Told(output=done.stdout)
    for event in EventReader(events).read():
        if isinstance(event, Session):
            told.required = {each.check for each in event.checks if each.required}
        elif isinstance(event, Start):
            told.results[event.check] = "unfinished"
        elif isinstance(event, End):
            told.results[event.check] = event.result
            told.messages[event.check] = event.message
    return told
