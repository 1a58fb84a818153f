"""Runs the steps that have no result yet, each in a process of its own."""

from __future__ import annotations

import importlib.util
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
from hardware_report.document import FAIL, NOT_RUN, ROOT, Outcome
from hardware_report.markdown import to_markdown
from hardware_report.plan import HARDWARE, step_named, visible
from hardware_report.reading import Left
from unidev.support.atomic_file import write_whole
from unidev.support.wording import count_text

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping

    from hardware_report.document import Report
    from hardware_report.plan import Step
    from unidev.support.child_processes import Interruption

FACTS = "facts.machine"
"""Runs each time, since a report may be resumed on another machine."""


DISTRIBUTIONS = {"sklearn": "scikit-learn"}
"""Distributions whose modules have another name."""


@dataclass(frozen=True)
class Orders:
    """The steps to run, the folder of the files, and the limits that end the run early."""

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
        reason = orders.left_out.get(name) or (
            None if name == FACTS else _unable(step, report, orders)
        )
        if reason is None:
            result = _run_step(step, report, orders)
        else:
            result = _result(step, Outcome(NOT_RUN, reason), 0.0, None, None)
        if result is None:
            say(f"{name}: cut short; it runs again next time")
            return
        say(f"{name}: {result['verdict']}" + (f": {result['reason']}" if result["reason"] else ""))
        _keep(report, result)
        document.write(report, orders.folder)
        write_whole(orders.folder / document.MARKDOWN_NAME, to_markdown(report))


def _keep(report: Report, result: dict[str, Any]) -> None:
    if result["step"] == FACTS and result["facts"].get("devices"):
        key = _key(result["facts"])
        report["machines"][key] = result["facts"]
        result["machine"], result["facts"] = key, {}
    document.record(report, result)


def _key(machine: Mapping[str, Any]) -> str:
    """The cards by their UUIDs, and what drives them: results of one key are comparable."""
    cards = [each["uuid"] or each["name"] for each in machine["gpus"]] or machine["devices"]
    versions = f"{machine['framework']} {machine['framework_version']}"
    return f"{', '.join(cards)}; driver {machine['driver']}; {versions}"


def _machine(report: Report) -> Mapping[str, Any]:
    """The facts about this machine; without any, it has no GPU."""
    of_facts = next((r for r in report["results"] if r["step"] == FACTS), {"machine": None})
    found: Mapping[str, Any] = report["machines"].get(of_facts["machine"], {"devices": []})
    return found


def _unable(step: Step, report: Report, orders: Orders) -> str | None:
    """Why the step cannot run here, if it cannot."""
    machine = _machine(report)
    missing = [each for each in step.needs if importlib.util.find_spec(each) is None]
    if missing:
        names = " ".join(DISTRIBUTIONS.get(each, each) for each in missing)
        return f"needs {names}, which {sys.executable} does not have"
    if len(machine["devices"]) < step.least:
        there = ", ".join(machine["devices"]) or "none"
        return f"needs {count_text(step.least, 'GPU')} of {report['backend']}; there: {there}"
    if orders.simulated and not step.is_simulated_too:
        return HARDWARE
    if step.visible is not None and os.environ.get("CUDA_VISIBLE_DEVICES"):
        return "CUDA_VISIBLE_DEVICES is set already"
    has_no_uuid = step.visible is not None and visible(step.visible, machine) is None
    return "the driver gives no UUID of an undivided GPU" if has_no_uuid else None


def _run_step(step: Step, report: Report, orders: Orders) -> dict[str, Any] | None:
    """The result; None if the whole run's limit, not the step's own, cut it short."""
    rest_s = orders.end - time.monotonic()
    machine = _machine(report)
    shown = visible(step.visible, machine) if step.visible else None
    value, gpus = shown or (None, len(machine["devices"]))
    variables = environment(report["backend"], orders.simulated)
    if value is not None:
        variables["CUDA_VISIBLE_DEVICES"] = value
    folder = Path(tempfile.mkdtemp(prefix=f"unidev-{step.name}-"))
    try:
        ended = children.run(
            step.command(report["backend"], is_short=report["short"]),
            min(step.limit_s, rest_s),
            folder,
            environment=variables,
            stop=orders.stop,
        )
        if ended.code is None and (orders.stop or rest_s < step.limit_s):
            return None
        outcome = step.read(Left(ended, folder, gpus, value))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    of_facts = next((r for r in report["results"] if r["step"] == FACTS), {"machine": None})
    output = ended.said if outcome.verdict == FAIL else None
    return _result(step, outcome, ended.seconds, of_facts["machine"], output)


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
        "MPLBACKEND": "Agg",
    }
    installed = {point.name for point in entry_points(group="unidev")}
    if plugin.is_dir() and backend not in installed:
        named = [os.environ.get("UNIDEV_PLUGINS", ""), f"unidev_{backend}"]
        variables["UNIDEV_PLUGINS"] = ",".join(filter(None, named))
    return variables
