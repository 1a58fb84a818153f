"""The report as Markdown, for a pull request or a README."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from unidev.system.tables import cell
from unidev.system.wording import plain
from unidev_conformance.judging.report import counts
from unidev_conformance.judging.verdict import judge
from unidev_conformance.reports import render

if TYPE_CHECKING:
    from collections.abc import Iterator

    from unidev_conformance.judging.report import Report, Result


def to_markdown(report: Report) -> str:
    """The report as a page of Markdown."""
    verdict = judge(report)
    lines = [
        f"# Conformance of {cell(report.header.backend)}: {render.VERDICTS[verdict.name]}",
        "",
        f"{render.summary(report)}.",
        "",
        *(f"- because: {cell(reason)}" for reason in verdict.reasons),
        *(f"- note: {cell(limit)}" for limit in verdict.limits),
        "",
        "| | |",
        "|---|---|",
        *(f"| {name} | {cell(value)} |" for name, value in render.facts(report)),
        "",
        *_configurations(report),
        *_matrix(report),
        *_details(report),
    ]
    return plain("\n".join(_without_doubles(lines)) + "\n")


def _configurations(report: Report) -> Iterator[str]:
    yield from ("## Configurations", "", "| configuration | devices | results |", "|---|---|---|")
    for each in report.header.configurations:
        found = counts(r for r in report.results if r.configuration == each.name)
        yield f"| {each.name} | {cell(render.devices_of(each))} | {render.counted(found)} |"
    yield ""


def _matrix(report: Report) -> Iterator[str]:
    names = [each.name for each in report.header.configurations]
    yield from ("## Checks", "", f"| check | required | {' | '.join(names)} |")
    yield "|---" * (len(names) + 2) + "|"
    for check in report.selected:
        results = (report.result(check.check, name) for name in names)
        kinds = [each.result if each else "not-run" for each in results]
        shown = " | ".join(f"{render.LOOKS[kind].mark} {kind}" for kind in kinds)
        yield f"| {cell(check.check)} | {cell(render.required(report, check.check))} | {shown} |"
    yield ""
    found = {kind: render.LOOKS[kind] for kind in render.LOOKS if kind in counts(report.results)}
    yield from (f"- {look.mark} {kind}: {look.meaning}" for kind, look in found.items())
    yield ""


def _details(report: Report) -> Iterator[str]:
    found = list(render.remarkable(report))
    if found:
        yield from ("## All results other than a pass", "")
    for result in found:
        yield from _detail(report, result)


def _detail(report: Report, result: Result) -> Iterator[str]:
    yield f"### {result.result}: {cell(result.check)} on {result.configuration}"
    yield ""
    if result.message:
        yield from (_verbatim(result.message), "")
    if render.counts_against(report, result):
        yield from ("To run it again:", "", _verbatim(result.reproduce), "")


def _verbatim(text: str) -> str:
    return f"<pre>{escape(text, quote=False)}</pre>"  # not every program knows fences


def _without_doubles(lines: list[str]) -> Iterator[str]:
    before = ""
    for line in lines:
        if line or before:
            yield line
        before = line
