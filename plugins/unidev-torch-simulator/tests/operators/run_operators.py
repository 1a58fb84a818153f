"""All operators of PyTorch on a simulated GPU: values and gradients are the CPU's, or they refuse.

    python plugins/unidev-torch-simulator/tests/operators/run_operators.py [--name sim] [add …]

Processes judge the operators (``judged.py``), and another one is started where one has died or
hangs. Failures that stay are listed in ``listed.csv`` with their reasons. The run fails where an
operator is neither right nor listed, or is right though listed; a crash or a hang always fails it.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import json
import os
import queue
import random
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

LISTED = Path(__file__).with_name("listed.csv")
DTYPES = ("float32", "float16", "bfloat16", "complex32", "complex64")
HANGS_AFTER_S = 60.0
STARTS_WITHIN_S = 300.0
PROCESSES = 2


class Job(NamedTuple):
    """An operator as OpInfo names it, and a dtype."""

    operator: str
    dtype: str


class Child:
    """A process that judges, and the thread that reads its answers."""

    program = Path(__file__).with_name("judging_child.py")

    def __init__(self, name: str) -> None:
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115  closed with the process
        self._process = subprocess.Popen(
            [sys.executable, str(self.program)],
            env=_environment(name), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors,
        )  # fmt: skip
        self._answers: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout:
            for line in self._process.stdout:
                self._answers.put(line)
        self._answers.put("")

    def answer(self, within_s: float) -> Any:
        """The next answer.

        Raises:
            queue.Empty: there is none in time.
            EOFError: the process has ended.
        """
        line = self._answers.get(timeout=within_s)
        if not line:
            raise EOFError(self._told())
        return json.loads(line)

    def judge(self, job: Job) -> str:
        """As ``answer``, for a job."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(job) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise EOFError(self._told()) from None
        outcome: str = self.answer(HANGS_AFTER_S)
        return outcome

    def _told(self) -> str:
        status = self._process.wait()
        self.errors.seek(0)
        said = self.errors.read().decode(errors="replace")
        lines = said[said.rfind("Fatal Python error") :].splitlines()[:12] if said else []
        return "\n    ".join([f"the process ended with {status}", *lines])

    def end(self) -> None:
        """Kill it, if it has not ended."""
        self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self.errors.close()


def _environment(name: str) -> dict[str, str]:
    inherited = {
        key: value for key, value in os.environ.items()
        if "UNIDEV_SIM" not in key or key == "UNIDEV_SIMULATE_LATE"
    }  # fmt: skip
    named = {} if name == "sim" else {"UNIDEV_SIMULATE_AS": name}
    return {
        **inherited,
        "UNIDEV_BACKEND": "torch",
        "UNIDEV_SIMULATE": "2",
        # One: several processes share the cores, and sums do not depend on how work is divided.
        "OMP_NUM_THREADS": "1",
        **named,
    }


class Run:
    """Jobs that several processes take, and what became of each."""

    def __init__(self, name: str, progress: Progress) -> None:
        self.outcomes: dict[Job, str] = {}
        self._name = name
        self._progress = progress
        self._children: set[Child] = set()
        self._idle: list[Child] = []
        self._lock = threading.Lock()
        self._jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self._is_over = False

    def operators(self) -> list[str]:
        """All that this torch has."""
        child, names = self._start()
        self._idle.append(child)
        return names

    def judge(self, jobs: Iterable[Job], processes: int) -> None:
        """Judge all, and kill the processes whatever happens."""
        for job in jobs:
            self._jobs.put(job)
        threads = [threading.Thread(target=self._work, daemon=True) for _ in range(processes)]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                while thread.is_alive():  # in steps, so that Ctrl-C arrives
                    thread.join(0.2)
        finally:
            with self._lock:
                self._is_over = True
                for child in self._children:
                    child.end()

    def _start(self) -> tuple[Child, list[str]]:
        with self._lock:
            if self._is_over:
                raise EOFError("the run is over")
            child = Child(self._name)
            self._children.add(child)
        return child, child.answer(STARTS_WITHIN_S)

    def _stop(self, child: Child) -> None:
        with self._lock:
            if child in self._children:
                self._children.remove(child)
                child.end()

    def _work(self) -> None:
        with self._lock:
            child = self._idle.pop() if self._idle else None
        while not self._is_over:
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                return
            try:
                if child is None:
                    child, _ = self._start()
                outcome = child.judge(job)
            except (EOFError, queue.Empty, ValueError) as error:
                if self._is_over:  # its files are closed
                    return
                outcome = f"crash: {error}"
                if isinstance(error, queue.Empty):
                    outcome = f"hang: no answer within {HANGS_AFTER_S:g} s"
                if child is not None:
                    self._stop(child)
                child = None
            self.outcomes[job] = outcome
            self._progress.say(len(self.outcomes), job, outcome)


class Progress:
    """A line on stderr that updates, or without a terminal a line every ten seconds."""

    def __init__(self, total: int) -> None:
        self.total = total
        self._began = self._said = time.monotonic()

    def say(self, done: int, job: Job, outcome: str) -> None:
        """After each job."""
        kind = kind_of(outcome)
        if kind in ("crash", "hang"):
            print(f"\n{job.operator} {job.dtype}: {outcome}", file=sys.stderr, flush=True)
        now = time.monotonic()
        text = f"{done} of {self.total}, {now - self._began:.0f} s, {job.operator} {job.dtype}"
        if sys.stderr.isatty():
            print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
        elif now - self._said >= 10 or done == self.total:
            self._said = now
            print(text, file=sys.stderr, flush=True)


def kind_of(outcome: str) -> str:
    """``right``, ``not on the CPU``, ``refused``, ``wrong``, ``crash`` or ``hang``."""
    return outcome.partition(":")[0]


def listed() -> dict[Job, str]:
    """The reason of each failure that stays."""
    with LISTED.open(newline="", encoding="utf-8") as file:
        return {Job(row["operator"], row["dtype"]): row["reason"] for row in csv.DictReader(file)}


def faults(outcomes: dict[Job, str], reasons: dict[Job, str]) -> list[str]:
    """Why the run fails, a line each."""
    found = []
    for job, outcome in sorted(outcomes.items()):
        kind, who = kind_of(outcome), f"{job.operator} {job.dtype}"
        if kind in ("crash", "hang"):
            found.append(f"{who}: {outcome}")
        elif kind in ("refused", "wrong") and job not in reasons:
            found.append(f"{who}: {outcome}; not listed in {LISTED.name}")
        elif kind in ("right", "not on the CPU") and job in reasons:
            found.append(f"{who}: {kind}, and listed in {LISTED.name}: remove its line")
    return found


def drawn(operators: list[str], one_in: int, seed: int) -> list[str]:
    """One of each ``one_in`` operators."""
    return sorted(random.Random(seed).sample(operators, max(1, round(len(operators) / one_in))))


def main() -> int:
    """The command at the top of this file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("operators", nargs="*", help="as OpInfo names them; all, if none is named")
    parser.add_argument("--name", choices=("cuda", "sim"), default="cuda")
    parser.add_argument("--dtypes", nargs="+", default=DTYPES)
    parser.add_argument("--draw", type=int, default=1, help="judge one in so many")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--processes", type=int, default=PROCESSES)
    parser.add_argument("--save", type=Path, help="a JSON file for all outcomes")
    given = parser.parse_args()
    progress = Progress(0)
    run = Run(given.name, progress)
    known = run.operators()
    if unknown := set(given.operators) - set(known):
        parser.error(f"no operator {min(unknown)}")
    operators = given.operators or known
    if given.draw > 1:
        operators = drawn(operators, given.draw, given.seed)
        print(f"again: --name {given.name} --draw {given.draw} --seed {given.seed}", flush=True)
    jobs = [Job(operator, dtype) for operator in operators for dtype in given.dtypes]
    progress.total = len(jobs)
    try:
        run.judge(jobs, given.processes)
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130
    if given.save:
        rows = {f"{op} {dtype}": outcome for (op, dtype), outcome in sorted(run.outcomes.items())}
        given.save.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    found = faults(run.outcomes, listed())
    print(*found, sep="\n")
    kinds = [kind_of(outcome) for outcome in run.outcomes.values()]
    counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(sorted(kinds)))
    print(f"{len(operators)} operators on {given.name}: {counts}; {len(found)} faults")
    return 1 if found or len(run.outcomes) < len(jobs) else 0


if __name__ == "__main__":
    sys.exit(main())
