"""``gpu-report.md``: the report for people, made from the JSON alone."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from hardware_report.document import FAIL, NOT_RUN, PASS, VERDICTS
from unidev.support.wording import bytes_text, one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hardware_report.document import Report

    Lines = Iterator[str]

MARKS = {PASS: "pass", FAIL: "**FAIL**", NOT_RUN: "not run"}


def to_markdown(report: Report) -> str:
    """The whole report."""
    return "\n".join(_lines(report)) + "\n"


def counted(report: Report) -> str:
    """``12 pass, 1 fail, 2 not run, 3 left``."""
    found = Counter(each["verdict"] for each in report["results"])
    parts = [f"{found[name]} {name}" for name in VERDICTS if found[name]]
    rest = len(report["planned"]) - len(report["results"])
    return ", ".join([*parts, *([f"{rest} left"] if rest else [])])


def _lines(report: Report) -> Lines:
    form = ", short form" if report["short"] else ""
    yield f"# {report['backend']} on a GPU: {report['verdict']}{form}"
    yield ""
    if report["stand_in"]:
        yield "**Made on simulated devices or a stand-in: it shows nothing about hardware.**"
        yield ""
    changed = {True: ", with changes", False: "", None: ""}[report["dirty"]]
    yield (
        f"{counted(report)}. unidev {report['unidev']}, commit "
        f"{report['commit'] or 'unknown'}{changed}, sources {report['sources'][:12]}; "
        f"{report['started']} to {report['changed']}."
    )
    for key, machine in report["machines"].items():
        yield ""
        yield from _machine(key, machine)
    yield ""
    yield "## Steps"
    yield ""
    yield from table(("step", "verdict", "seconds", "reason"), _step_rows(report))
    for result in report["results"]:
        yield from _details(result)


def _machine(key: str, machine: dict[str, Any]) -> Lines:
    yield f"## {key}"
    yield ""
    built = f", built for {machine['built_for']}" if machine["built_for"] else ""
    yield (
        f"{machine['framework']} {machine['framework_version']}{built}; Python "
        f"{machine['python']}, {machine['platform']}, {machine['cores']} cores; driver "
        f"{machine['driver'] or 'unknown'}, CUDA up to {machine['cuda_version'] or 'unknown'}; "
        f"devices: {', '.join(machine['devices'])}."
    )
    for gpu in machine["gpus"]:
        total = "" if gpu["total_bytes"] is None else f", {bytes_text(gpu['total_bytes'])}"
        yield ""
        yield f"GPU {gpu['index']}: {gpu['name']}, {gpu['architecture']}{total}, {gpu['uuid']}"
        if gpu["state"]:
            yield ""
            yield from table(("state", ""), gpu["state"].items())
    for title in ("settings", "environment"):
        if machine[title]:
            yield ""
            yield from table((title, ""), machine[title].items())


def _step_rows(report: Report) -> Iterator[tuple[str, str, str, str]]:
    found = {each["step"]: each for each in report["results"]}
    for name in report["planned"]:
        result = found.get(name)
        if result is None:
            yield name, "left", "", ""
        else:
            mark, seconds = MARKS[result["verdict"]], f"{result['seconds']:.0f}"
            yield name, mark, seconds, one_line(result["reason"] or "")


def _details(result: dict[str, Any]) -> Lines:
    if not (result["tables"] or result["output"] or result["verdict"] == FAIL):
        return
    yield ""
    yield f"## {result['step']}: {MARKS[result['verdict']]}"
    yield ""
    yield result["title"] + (f": {result['reason']}" if result["reason"] else ".")
    for remark in result["remarks"]:
        yield f"- {one_line(remark, 1000)}"
    for each in result["tables"]:
        yield ""
        yield f"### {each['title']}"
        yield ""
        yield from table(each["columns"], each["rows"])
    if result["output"]:
        yield ""
        yield "```text"
        yield result["output"].replace("```", "'''")
        yield "```"


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Lines:
    """A Markdown table; bars in cells are escaped."""
    yield f"| {' | '.join(columns)} |"
    yield f"|{'---|' * len(columns)}"
    for row in rows:
        cells = [one_line(str(cell), 1000).replace("|", "\\|") for cell in row]
        yield f"| {' | '.join(cells)} |"
