"""The parent: runs every configuration, and makes the report of the results."""

from __future__ import annotations

import os
import platform
import shlex
import tempfile
import time
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from unidev.backends.discovery import EMBEDDED
from unidev.backends.loading import refusal_of
from unidev.contract.backend import Unsupported
from unidev.contract.backend_spec import SimulatedGpus
from unidev.errors import UnidevError
from unidev_conformance import HARDWARE
from unidev_conformance.judging.report import Header, Report, Result
from unidev_conformance.running.catalog import PROFILES
from unidev_conformance.running.configuration_run import (
    FAIL_FAST,
    ConfigurationRun,
    Progress,
    RefusedError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from unidev.contract.backend_spec import BackendSpec
    from unidev.system.child_processes import Interruption
    from unidev_conformance.events import CheckEntry

DEFAULT_MOST = 4
"""Enough for every pair and a third, beside 1, where nothing can cross devices."""
DEFAULT_TIMEOUT_S = 120.0


class UsageError(Exception):
    """Invalid options."""


class BackendMissingError(Exception):
    """The backend does not exist, or cannot be loaded."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The backend, profile, checks and limits of a run."""

    backend: str
    command: str
    """The user's command line, for the report."""
    profile: str = "tensor"
    simulate: int | None = None
    """None: 1, and 4 or as many as there can be; N: that alone; 0: no simulated devices."""
    simulate_as: str | None = None
    """The framework's name for the simulated GPUs, such as ``cuda``."""
    with_host: bool = True
    """Whether to judge the host's own devices, too, where GPUs are simulated."""
    only: tuple[str, ...] | None = None
    is_quick: bool = False
    """Whether ``only`` was drawn, which is no judgement; leaves out one simulated GPU."""
    timeout_s: float = DEFAULT_TIMEOUT_S
    fail_fast: bool = False
    """Whether to end at the first result that keeps the backend from conforming."""


def run(plan: Plan, *, on_progress: Callable[[Progress], None], stop: Interruption) -> Report:
    """Run ``plan``, one child process at a time; returns its report, even when interrupted.

    Raises:
        BackendMissingError: the backend does not exist.
        UsageError: ``only`` names no check, or the like.
    """
    counts, notes = configurations(plan)
    started, clock = datetime.now(timezone.utc), time.monotonic()
    runs: list[ConfigurationRun] = []
    with tempfile.TemporaryDirectory(prefix="unidev-conform-", ignore_cleanup_errors=True) as top:
        for count in counts:
            runs.append(
                ConfigurationRun(
                    name=configuration_name(count, plan.simulate_as), backend=plan.backend,
                    profile=plan.profile, simulated=count, simulate_as=plan.simulate_as,
                    only=plan.only, timeout_s=plan.timeout_s, on_progress=on_progress,
                    fail_fast=plan.fail_fast,
                )
            )  # fmt: skip
            if any(run.decided_by for run in runs):
                runs[-1].interruptions.append(
                    f"not started: another configuration ended {FAIL_FAST}"
                )
                continue
            if stop:
                runs[-1].interruptions.append("interrupted before its start")
                continue
            _run_one(runs[-1], Path(top) / runs[-1].name, stop)
    timing = (started.isoformat(timespec="seconds"), round(time.monotonic() - clock, 3))
    return _report(plan, runs, notes, timing)


def configurations(plan: Plan) -> tuple[list[int], list[str]]:
    """Numbers of simulated devices to run with (0: the host's own), and notes about them.

    Raises:
        BackendMissingError: the backend or its framework is not installed.
        UsageError: simulated devices are requested of a profile that is about real ones, or
            nothing is left to judge.
    """
    spec = _spec(plan.backend)
    _check_options(plan)
    if plan.profile == HARDWARE:
        return [0], ["judged only on the host's own devices: the profile is about real GPUs"]
    most = {_most(spec)} if plan.is_quick else {1, _most(spec)}
    wanted = most if plan.simulate is None else {plan.simulate}
    counts = sorted({0, *wanted})
    if plan.simulate_as is not None:
        if plan.backend == EMBEDDED:
            raise UsageError(
                "--simulate-as: NumPy has no devices of its own, so its simulated GPUs bear no name"
            )
        reason = refusal_of(spec, SimulatedGpus(count=max(counts), name=plan.simulate_as))
        if reason is not None:
            raise UsageError(f"--simulate-as {plan.simulate_as}: {reason}")
    if isinstance(spec.simulator, Unsupported):
        if not plan.with_host:
            raise UsageError(
                f"--no-host leaves nothing to judge: {plan.backend} has no simulator "
                f"({spec.simulator.reason})"
            )
        note = f"judged only on the host's own devices: no simulator ({spec.simulator.reason})"
        return [0], [note]
    if not plan.with_host:
        return counts[1:], ["not judged on the host's own devices, because of --no-host"]
    if len(counts) == 1:
        return counts, ["judged only on the host's own devices, because of --simulate 0"]
    return counts, []


def _most(spec: BackendSpec) -> int:
    """The largest default number of simulated GPUs to which the backend's simulator agrees."""
    numbers = range(DEFAULT_MOST, 1, -1)
    try:
        fit = (count for count in numbers if refusal_of(spec, SimulatedGpus(count=count)) is None)
        return next(fit, 1)
    except UnidevError:  # it is not installed: a child says so
        return DEFAULT_MOST


def _check_options(plan: Plan) -> None:
    """Refuse options that contradict each other."""
    if plan.simulate == 0 and plan.simulate_as is not None:
        raise UsageError("--simulate 0 simulates no GPUs: leave out --simulate-as")
    if plan.simulate == 0 and not plan.with_host:
        raise UsageError("--simulate 0 and --no-host leave nothing to judge: leave out one of them")
    is_simulated = plan.simulate or plan.simulate_as is not None or not plan.with_host
    if plan.profile == HARDWARE and is_simulated:
        raise UsageError(
            "the profile hardware judges real GPUs: leave out --simulate, --simulate-as and "
            "--no-host"
        )


def reproduction(plan: Plan, check: str, simulated: int) -> str:
    """The command line that repeats one check in one configuration."""
    words = ["conform", plan.backend, "--only", check, "--simulate", str(simulated)]
    if simulated and plan.simulate_as is not None:
        words += ["--simulate-as", plan.simulate_as]
    if plan.profile != PROFILES[0]:
        words += ["--profile", plan.profile]
    named = os.environ.get("UNIDEV_PLUGINS", "")
    # `python -m` also finds a plugin in the current folder.
    start = f"UNIDEV_PLUGINS={shlex.quote(named)} python -m unidev " if named else "unidev "
    return start + shlex.join(words)


def _spec(name: str) -> BackendSpec:
    import importlib.util

    from unidev.backends.discovery import backend_spec
    from unidev.errors import BackendError

    try:
        spec = backend_spec(name)
    except BackendError as error:
        raise BackendMissingError(str(error)) from error
    if importlib.util.find_spec(spec.framework) is None:
        raise BackendMissingError(
            f"backend {name!r} needs {spec.framework}, which is not installed. "
            f"Install it with: {spec.install}"
        )
    return spec


def configuration_name(count: int, simulate_as: str | None = None) -> str:
    """The name of the configuration with ``count`` simulated devices, 0 for the host's own."""
    named = f"-as-{simulate_as}" if simulate_as is not None else ""
    return f"simulate-{count}{named}" if count else "host"


def _run_one(run: ConfigurationRun, folder: Path, stop: Interruption) -> None:
    try:
        run.run(folder, stop)
    except RefusedError as refused:
        if refused.refusal == "usage":
            raise UsageError(str(refused)) from refused
        raise BackendMissingError(str(refused)) from refused


def _report(
    plan: Plan, runs: Sequence[ConfigurationRun], notes: Sequence[str], timing: tuple[str, float]
) -> Report:
    from unidev import __version__

    session = next((run.session for run in runs if run.session is not None), None)
    header = Header(
        suite_version=session.suite_version if session else "unknown",
        unidev_version=__version__,
        backend=plan.backend,
        framework=session.framework if session else "unknown",
        framework_version=session.framework_version if session else "unknown",
        python=platform.python_version(),
        platform=platform.platform(),
        profile=plan.profile,
        selection=plan.only,
        is_quick=plan.is_quick,
        command=plan.command,
        started=timing[0],
        seconds=timing[1],
        timeout_s=plan.timeout_s,
        notes=tuple(notes),
        checks=session.checks if session else (),
        configurations=tuple(run.described() for run in runs),
    )
    selected = Report(header=header, results=()).selected
    results = tuple(_result(plan, run, entry) for run in runs for entry in selected)
    return Report(header=header, results=results)


def _result(plan: Plan, run: ConfigurationRun, entry: CheckEntry) -> Result:
    end = run.ends.get(entry.check)
    kind, message, seconds = run.broken.get(entry.check, ("not-run", _why_not_run(run), 0.0))
    return Result(
        check=entry.check,
        configuration=run.name,
        profile=entry.profile,
        required=entry.required,
        result=end.result if end else kind,
        seconds=end.seconds if end else seconds,
        devices=end.devices if end else (),
        message=end.message if end else message,
        evidence=end.evidence if end else {},
        reproduce=reproduction(plan, entry.check, run.simulated),
    )


def _why_not_run(run: ConfigurationRun) -> str:
    return run.interruptions[0] if run.interruptions else "the child did not reach it"
