"""A mutant's row of the matrix: what each check of its profile says of it, none left out.

Each row is judged in a fork of a process that has imported the suite and the framework. A check
that hangs, or ends its process, has caught the mutant; the checks after it run in another fork.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import multiprocessing
import os
import resource
import shutil
import signal
import sys
import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING
from unittest import mock

from conformance_children import judge, result_in
from mutants import MUTANTS
from mutants.mutant import JAX, MXNET, NUMPY, PADDLE, TENSORFLOW, TORCH, TOY, mutant

from unidev_conformance.running.catalog import all_checks
from unidev_conformance.running.child import Order, environment

if TYPE_CHECKING:
    from collections.abc import Collection
    from multiprocessing.context import BaseContext
    from pathlib import Path

    from mutants.mutant import Mutant

SILENCE_S = 60.0
"""A check without a sign of life for that long hangs: none of the sound backend's takes a third."""
MOST_S = 180.0
"""A check hangs after it, also if it lives: one that draws programs looks for a shorter one."""
_LOOK_S = 0.1
BACKENDS = {
    "numpy": NUMPY, "torch": TORCH, "tensorflow": TENSORFLOW, "paddle": PADDLE, "mxnet": MXNET,
    "jax": JAX, "toy": TOY,
}  # fmt: skip
"""The modules of plugins, by their backends' names."""
_CAUGHT = ("fail", "error", "xpass", "crash", "hang")


@dataclass(frozen=True)
class Row:
    """What caught one mutant."""

    mutant: str
    """Its name; that of one in ``SOUND`` is the backend as it is."""
    simulated: int
    """The number of simulated GPUs."""
    caught: dict[str, str]
    """The checks that caught it, and how."""
    judged: int
    """How many checks of the profile came to a result."""
    left_out: list[str] = field(default_factory=list)
    """Checks that did not run."""
    cpu: float = 0.0
    """Seconds of a processor, of the process and of those that it waited for."""


def _nothing(_: object) -> None:
    """The backend as it is: what catches this catches being a mutant."""


SOUND = {
    name: dataclasses.replace(mutant(plugin=plugin)(_nothing), name=f"sound_{name}")
    for name, plugin in BACKENDS.items()
}
globals().update({each.name: each for each in SOUND.values()})  # plugins are found by such a name


class Rows:
    """The rows in a file, a line each as it comes, so that a run that was stopped goes on."""

    def __init__(self, path: Path) -> None:
        self._path = path
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        rows = [Row(**json.loads(line)) for line in lines]
        self.found = {(row.mutant, row.simulated): row for row in rows}

    def has(self, each: Mutant) -> bool:
        """Whether the mutant has been judged."""
        return (each.name, each.simulated_count) in self.found

    def caught(self, each: Mutant) -> frozenset[str]:
        """The checks that caught it."""
        return frozenset(self.found[each.name, each.simulated_count].caught)

    def add(self, row: Row) -> None:
        """Keep a row, in the file first."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(row)) + "\n")
        self.found[row.mutant, row.simulated] = row


class Warm:
    """A process that has imported the suite and a plugin, and copies itself for each row."""

    def __init__(self, plugin: str) -> None:
        self._context: BaseContext = multiprocessing.get_context("forkserver")
        more = () if plugin in (NUMPY, TOY, PADDLE) else (f"{plugin}.backend",)
        self._context.set_forkserver_preload(["conformance_warm", *more])
        variables = {
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        }
        with mock.patch.dict(os.environ, variables):
            from multiprocessing import forkserver

            forkserver.ensure_running()

    def row(self, each: Mutant, folder: Path, without: Collection[str]) -> Row:
        """Judge one mutant by each check of its profile, but for those ``without`` it can do."""
        left_out = sorted(set(without) - set(each.caught_by))
        waiting = [check.id for check in all_checks(each.profile) if check.id not in left_out]
        results: dict[str, str] = {}
        cpu = 0.0
        while waiting:
            own = folder / str(len(waiting))
            how = self._run(each, waiting, own)
            told = result_in(own).results
            cpu += _cpu(own)
            shutil.rmtree(own, ignore_errors=True)
            results |= {c: how if r == "unfinished" else r for c, r in told.items()}
            if not told:  # before the first check: none has a result
                results |= dict.fromkeys(waiting, how)
            waiting = [check for check in waiting if check not in results]
        caught = {check: how for check, how in results.items() if how in _CAUGHT}
        return Row(each.name, each.simulated_count, caught, len(results), left_out, round(cpu, 2))

    def _run(self, each: Mutant, checks: list[str], folder: Path) -> str:
        """Run the checks; how the one ended that has no end: ``crash`` or ``hang``."""
        folder.mkdir(parents=True)
        order = Order(
            backend=each.backend_name,
            profile=each.profile,
            simulated=each.simulated_count,
            only=tuple(checks),
        )
        off = next(name for name, plugin in BACKENDS.items() if plugin == each.plugin)
        place = "mutants" if each.name in MUTANTS else __name__
        given = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "CI": "true",
            "UNIDEV_PLUGINS": f"{place}:{each.name}",
            "UNIDEV_DISABLED_PLUGINS": "numpy" if off == "toy" else off,
        }
        variables = environment(each.simulated_count, given, folder)
        process = self._context.Process(target=_judge, args=(order, variables, folder))  # type: ignore[attr-defined]
        process.start()
        limits = _Limits(folder / "events.jsonl")
        try:
            while process.is_alive():
                time.sleep(_LOOK_S)
                if limits.are_over():
                    return "hang"
            return "crash"
        finally:  # also at Ctrl-C
            with contextlib.suppress(ProcessLookupError):  # the group, and so its children, ended
                os.killpg(process.pid, signal.SIGKILL)
            process.kill()
            process.join()


class _Limits:
    """How long a check has been silent, and how long it has run."""

    def __init__(self, events: Path) -> None:
        self._events, self._size, self._starts = events, 0, 0
        self._heard = self._began = time.monotonic()

    def are_over(self) -> bool:
        """Whether it hangs."""
        now = time.monotonic()
        size = self._events.stat().st_size if self._events.exists() else 0
        if size != self._size:
            starts = self._events.read_bytes().count(b'"event": "start"')
            if starts != self._starts:
                self._began = now
            self._size, self._starts, self._heard = size, starts, now
        return now - self._heard > SILENCE_S or now - self._began > MOST_S


def _judge(order: Order, variables: dict[str, str], folder: Path) -> None:
    """In the fork: the leader of a group of its own, which is ended with it."""
    os.setsid()
    try:
        judge(order, variables, folder)
    finally:
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        seconds = sum(each.ru_utime + each.ru_stime for each in used)
        (folder / "cpu").write_text(str(seconds), encoding="utf-8")


def _cpu(folder: Path) -> float:
    path = folder / "cpu"
    return float(path.read_text(encoding="utf-8")) if path.exists() else 0.0
