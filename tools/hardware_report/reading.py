"""How what a step's program leaves is read: each reader judges by exit code and by content."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from hardware_report.document import NOT_RUN, ROOT, Outcome, judged
from unidev.support.wording import count_text

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hardware_report.children import Ended

REPORT = "report.json"
EXACT_ON = 2
"""The number of GPUs with which what the examples print was recorded."""
_BAD = ("fail", "error", "crash", "timeout", "xpass", "not-run")


class Left(NamedTuple):
    """The end of a step's program, its folder, and the GPUs that it had."""

    ended: Ended
    folder: Path
    gpus: int
    """How many GPUs it has."""
    visible: str | None = None
    """The value of ``CUDA_VISIBLE_DEVICES`` that the step has set, if it has."""


def machine(left: Left) -> Outcome:
    """The facts, of which the framework must see a GPU and the driver all cards."""
    if left.ended.code != 0:
        return judged([f"the facts: {left.ended.briefly}"])
    facts = json.loads(left.ended.out)
    outcome = judged(facts.pop("problems"))
    if not facts["devices"]:
        outcome = Outcome(NOT_RUN, f"needs 1 GPU of {facts['framework']}; there: none")
    outcome.facts = facts
    return outcome


def diagnosis(left: Left) -> Outcome:
    """Reasons from ``unidev doctor`` why the framework cannot use a GPU, if any."""
    try:
        found = json.loads(left.ended.out)["findings"]
    except ValueError:
        return judged([f"unidev doctor: {left.ended.briefly}"])
    titles = [each["title"] for each in found]
    if left.ended.code != 0:
        return judged(titles or [f"unidev doctor: {left.ended.briefly}"])
    outcome = judged([])
    outcome.remarks += titles
    return outcome


def conformance(left: Left) -> Outcome:
    """The suite's own verdict, and the checks that do not pass."""
    if not (left.folder / REPORT).exists():
        return judged([f"unidev conform wrote no report: {left.ended.briefly}"])
    report = json.loads((left.folder / REPORT).read_text(encoding="utf-8"))
    header, footer = report["header"], report["footer"]
    devices = [d["device"] for one in header["configurations"] for d in one["devices"]]
    problems = []
    if left.ended.code != 0:
        problems = [f"unidev conform: {footer['verdict']}", *footer["reasons"]]
    there = [each for each in devices if each.startswith("gpu")]
    if left.visible is not None and len(there) != left.gpus:
        visible = count_text(left.gpus, "GPU")
        problems.append(f"{visible} should be visible ({left.visible!r}); judged: {there}")
    outcome = judged(problems)
    for each in header["configurations"]:
        named = ", ".join(f"{d['device']} ({d['name']})" for d in each["devices"])
        counts = footer["counts_by_configuration"][each["name"]]
        said = ", ".join(f"{number} {kind}" for kind, number in counts.items())
        outcome.remarks.append(f"{each['name']}: {named}: {said}")
    bad = [r for r in report["results"] if r["result"] in _BAD]
    if bad:
        rows = [
            (r["check"], ", ".join(r["devices"]), r["result"], r["required"], r["message"])
            for r in bad
        ]
        columns = ("check", "devices", "result", "required", "message")
        outcome.add_table("Checks that do not pass", columns, rows)
    outcome.facts = {
        "suite_version": header["suite_version"],
        "seconds": round(header["seconds"], 1),
        "counts": footer["counts"],
        "devices": devices,
    }
    return outcome


def trace(left: Left) -> Outcome:
    """The example ends well, and its trace has transfers."""
    if left.ended.code != 0 or not (left.folder / REPORT).exists():
        return judged([f"unidev trace: {left.ended.briefly}"])
    found = json.loads((left.folder / REPORT).read_text(encoding="utf-8"))["transfers"]
    outcome = judged([] if found else ["the trace has no transfers"])
    outcome.facts = {"transfers": len(found)}
    return outcome


def example(name: str) -> Callable[[Left], Outcome]:
    """One example ends well; what it prints is compared where that was recorded."""

    def read(left: Left) -> Outcome:
        problems = [] if left.ended.code == 0 else [f"{name}.py: {left.ended.briefly}"]
        expected = ROOT / "examples" / f"{name}.expected"
        if expected.exists() and left.gpus == EXACT_ON:
            is_same = left.ended.out == expected.read_text(encoding="utf-8")
            if not is_same:
                problems.append(f"{name}.py printed something else than {expected.name}")
        outcome = judged(problems)
        lines = [[line] for line in _some(left.ended.out)]
        outcome.add_table("What it printed", (f"{name}.py",), lines)
        return outcome

    return read


def benchmark(left: Left) -> Outcome:
    """One benchmark ends well; its ratios are reported, not judged."""
    rows = [_cells(line) for line in left.ended.out.splitlines() if line.startswith("|")]
    if left.ended.code != 0:
        return judged([left.ended.briefly])
    if len(rows) <= 2:
        return judged([f"it printed no table: {left.ended.said}"])
    outcome = judged([])
    outcome.add_table("What it measured", rows[0], rows[2:])  # without the line of dashes
    return outcome


def bench(left: Left) -> Outcome:
    """The measurements of ``unidev bench``, some of them on a GPU."""
    if left.ended.code != 0:
        return judged([f"unidev bench: {left.ended.briefly}"])
    document = json.loads(left.ended.out)
    measured = {each["device"] for each in document["results"] if each["summary"]}
    has_gpu = any("gpu" in each for each in measured)
    outcome = judged([] if has_gpu else ["bench measured nothing on a GPU"])
    outcome.remarks += document["findings"]
    outcome.add_table(
        "unidev bench",
        ("subject", "what", "device", "variant", "size", "median, s", "timings", "reason"),
        [_row(each) for each in document["results"]],
    )
    kept = ("date", "seconds", "is_full", "load", "crossovers")
    outcome.facts = {name: document[name] for name in kept}
    return outcome


def _row(result: dict[str, Any]) -> list[object]:
    timing = result["summary"] or {"median_s": "", "timings": ""}
    named = [result[name] for name in ("subject", "what", "device", "variant")]
    size = "" if result["size"] is None else result["size"]
    return [*named, size, timing["median_s"], timing["timings"], result["reason"] or ""]


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def _some(text: str, most: int = 30) -> list[str]:
    lines = text.splitlines()
    return lines if len(lines) <= most else [*lines[: most - 1], f"… {len(lines) - most} more"]
