"""Runs the steps that have no result yet, each in a process of its own."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardware_report import children, document
from hardware_report.child import ANSWER
from hardware_report.markdown import to_markdown
from hardware_report.outcome import FAIL, NOT_RUN, PASS, Outcome
from hardware_report.plan import step_named
from hardware_report.setting import ROOT
from unidev.support.atomic_file import write_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping

    from hardware_report.children import Ended
    from hardware_report.document import Report
    from hardware_report.plan import Step
    from unidev.support.child_processes import Interruption

FACTS = "facts.machine"
"""Runs each time, since a report may be resumed on another machine."""


@dataclass(frozen=True)
class Orders:
    """What to run, where the files go, and what stops the run before all steps are done."""

    folder: Path
    chosen: Container[str]
    """Other steps are left for another time."""
    left_out: Mapping[str, str]
    """Steps that cannot run here, and the reasons."""
    end: float
    """On the clock of ``time.monotonic``; no step starts or continues after it."""
    stop: Interruption
    simulated: int = 0
    """The number of simulated GPUs; 0: the real ones."""


def run(report: Report, orders: Orders, say: Callable[[str], None]) -> None:
    """Run what is left, and write both files after each step."""
    left = [name for name in document.left(report) if name in orders.chosen and name != FACTS]
    for name in (FACTS, *left):
        if orders.stop or time.monotonic() > orders.end:
            return
        step = step_named(name)
        say(f"{name}: {step.title}")
        result = _left_out(step, orders.left_out) or _run_step(step, report, orders)
        if result is None:
            say(f"{name}: cut short; it runs again next time")
            return
        say(f"{name}: {result['verdict']}" + (f": {result['reason']}" if result["reason"] else ""))
        _keep(report, result)
        document.write(report, orders.folder)
        write_whole(orders.folder / document.MARKDOWN_NAME, to_markdown(report))


def _keep(report: Report, result: dict[str, Any]) -> None:
    if result["step"] == FACTS and result["verdict"] == PASS:
        key = _key(result["facts"])
        report["machines"][key] = result["facts"]
        result["machine"], result["facts"] = key, {}
    document.record(report, result)


def _key(machine: Mapping[str, Any]) -> str:
    """The cards by their UUIDs, and what drives them: results of one key are comparable."""
    cards = [each["uuid"] or each["name"] for each in machine["gpus"]] or machine["devices"]
    versions = f"{machine['framework']} {machine['framework_version']}"
    return f"{', '.join(cards)}; driver {machine['driver']}; {versions}"


def _left_out(step: Step, left_out: Mapping[str, str]) -> dict[str, Any] | None:
    if step.name not in left_out:
        return None
    return _result(step, Outcome(NOT_RUN, left_out[step.name]), 0.0, None, None)


def _run_step(step: Step, report: Report, orders: Orders) -> dict[str, Any] | None:
    """The result; None if the whole run's limit, not the step's own, cut it short."""
    rest_s = orders.end - time.monotonic()
    limit_s = min(step.limit_s, rest_s)
    folder = Path(tempfile.mkdtemp(prefix=f"unidev-{step.name}-"))
    try:
        ended = children.run(
            command(step, report["backend"], folder, is_short=report["short"]),
            limit_s,
            folder,
            environment=environment(report["backend"], orders.simulated),
            stop=orders.stop,
        )
        if ended.code is None and (orders.stop or rest_s < step.limit_s):
            return None
        outcome = _outcome(folder, ended)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    facts = next((r for r in report["results"] if r["step"] == FACTS), {"machine": None})
    output = ended.said if outcome.verdict == FAIL else None
    return _result(step, outcome, ended.seconds, facts["machine"], output)


def _outcome(folder: Path, ended: Ended) -> Outcome:
    answer = folder / ANSWER
    if answer.exists():
        return Outcome(**json.loads(answer.read_text(encoding="utf-8")))
    return Outcome(FAIL, f"its process gave no answer: {ended.how}")


def _result(
    step: Step, outcome: Outcome, seconds: float, machine: str | None, output: str | None
) -> dict[str, Any]:
    return {
        "step": step.name,
        "title": step.title,
        "seconds": round(seconds, 1),
        "machine": machine,
        "output": output,
        **asdict(outcome),
    }


def command(step: Step, backend: str, folder: Path, *, is_short: bool) -> list[str]:
    """The command line of the step's process."""
    words = [sys.executable, "-X", "faulthandler", "-m", "hardware_report.child"]
    return [*words, step.name, backend, str(folder), *(["--short"] if is_short else [])]


def environment(backend: str, simulated: int) -> dict[str, str]:
    """Variables for children: this checkout, this backend, and the devices that are asked for.

    The plugin is found without being installed.
    """
    plugin = ROOT / "plugins" / f"unidev-{backend}" / "src"
    places = [ROOT / "tools", ROOT, *([plugin] if plugin.is_dir() else [])]
    given = os.environ.get("PYTHONPATH", "")
    variables = {
        "PYTHONPATH": os.pathsep.join([*map(str, places), *([given] if given else [])]),
        "UNIDEV_BACKEND": backend,
        "UNIDEV_SIMULATE": str(simulated),
    }
    installed = {point.name for point in entry_points(group="unidev")}
    if plugin.is_dir() and backend not in installed:
        named = [os.environ.get("UNIDEV_PLUGINS", ""), f"unidev_{backend}"]
        variables["UNIDEV_PLUGINS"] = ",".join(filter(None, named))
    return variables
