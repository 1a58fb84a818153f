"""Processes that end with the tool, and pytest's run of a suite."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from programs_of_others.environment import Environment

LONGEST = 4 * 3600
"""Seconds after which a suite is ended; each test has a limit of its own."""
EVERY = 10.0
"""Seconds between two lines of progress."""


class Refusal(Exception):  # noqa: N818  not an error of the program, but of what it was given
    """A sentence for whoever gave the command."""


@dataclass(frozen=True)
class Run:
    """How pytest ended, and where it wrote its counts."""

    exit_code: int
    junit: Path
    log: Path


def run_pytest(environment: Environment, *, simulated: bool, kept: bool, extra: list[str]) -> Run:
    """The suite's tests, with two simulated GPUs or with none; ``kept``: those of the last run."""
    suite = environment.suite
    name = "with" if simulated else "without"
    junit, log = environment.folder / f"{name}.xml", environment.folder / f"{name}.log"
    ending = environment.folder / f"{name}.exit"
    if kept:
        if not ending.is_file():
            raise Refusal(f"{environment.folder} has no run of {suite.name} to count")
        return Run(int(ending.read_text()), junit, log)
    junit.unlink(missing_ok=True)  # that of an earlier run would be counted
    left_out = [f"--deselect-pattern={each.tests}" for each in suite.left_out]
    command = [
        *environment.command(simulated=simulated), "-m", "pytest",
        *map(str, environment.tests), "-v", "-rfE", "--tb=short", "-p", "no:cacheprovider",
        "-p", "programs_of_others.deselecting", *left_out,
        "--timeout", str(suite.timeout), "--junitxml", str(junit), *suite.options, *extra,
    ]  # fmt: skip
    variables = environment.variables()
    tools = str(environment.tools)
    variables["PYTHONPATH"] = os.pathsep.join(filter(None, [variables.get("PYTHONPATH"), tools]))
    ended = run_in_group(
        command,
        log=log,
        about=f"{suite.name}: {name} simulated GPUs",
        limit=LONGEST,
        cwd=environment.source if environment.source.is_dir() else environment.folder,
        variables=variables,
    )
    ending.write_text(str(ended))
    return Run(ended, junit, log)


def run_in_group(  # noqa: PLR0913  each has its name
    command: list[str],
    *,
    log: Path,
    about: str,
    limit: float,
    cwd: Path | None = None,
    variables: Mapping[str, str] | None = None,
) -> int:
    """The exit code; the process, and all that it started, have ended when this returns.

    Progress is a line every ten seconds: the time, and the last line of the log.
    """
    began = told = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=cwd, env=variables, stdout=output, stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        with _ended_at_last(process):
            while (code := process.poll()) is None:
                time.sleep(0.2)
                now = time.monotonic()
                if now - began > limit:
                    print(f"{about}: ended after {limit:.0f} s", file=sys.stderr)
                    return -signal.SIGKILL
                if now - told > EVERY:
                    told = now
                    print(f"{about}: {now - began:.0f} s  {_last_line(log)}", flush=True)
    print(f"{about}: exit code {code} after {time.monotonic() - began:.0f} s", flush=True)
    return code


@contextlib.contextmanager
def _ended_at_last(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """End the process's group on the way out, by Ctrl-C too, and by SIGTERM."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        # The group outlives its leader where a test left workers behind.
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, number)
                if process.poll() is None:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(5)


def _last_line(log: Path) -> str:
    with log.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - 2000))
        lines = file.read().decode(errors="replace").split("\n")
    return next((line.strip()[:100] for line in reversed(lines) if line.strip()), "")
