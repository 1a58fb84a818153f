"""The report in a terminal, or as plain text in a pipe."""

from __future__ import annotations

from textwrap import indent
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table
from rich.text import Text

from unidev.system.wording import count_text
from unidev_conformance.judging.report import counts
from unidev_conformance.judging.verdict import judge
from unidev_conformance.reports import render

if TYPE_CHECKING:
    from rich.console import Console

    from unidev_conformance.judging.report import Report, Result

_MOST_NAMED = 3


def print_report(report: Report, console: Console, *, verbose: bool = False) -> None:
    """Print what was judged, the results, and all other than passes, with a line to repeat each.

    ``verbose`` adds a table of every check in every configuration.
    """
    for name, value in render.facts(report):
        console.print(Text(f"{name + ':':<11}{value}"))
    console.print()
    _print_configurations(report, console)
    if verbose:
        _print_matrix(report, console)
    _print_results(report, console)
    _print_verdict(report, console)


def _print_configurations(report: Report, console: Console) -> None:
    for each in report.header.configurations:
        console.print(Text(f"{each.name}: {render.devices_of(each)}", style="bold"))
        found = counts(r for r in report.results if r.configuration == each.name)
        console.print(Text(f"  {render.counted(found)}"))
    console.print()


def _print_matrix(report: Report, console: Console) -> None:
    names = [each.name for each in report.header.configurations]
    table = Table("check", "required", *names, box=None, pad_edge=False)
    for check in report.selected:
        cells = []
        for name in names:
            result = report.result(check.check, name)
            kind = result.result if result else "not-run"
            cells.append(f"[{render.LOOKS[kind].colour}]{render.LOOKS[kind].mark} {kind}[/]")
        table.add_row(escape(check.check), render.required(report, check.check), *cells)
    console.print(table)
    console.print()


def _print_results(report: Report, console: Console) -> None:
    found = list(render.remarkable(report))
    missing: dict[tuple[str, str], list[str]] = {}
    for result in found:
        if result.result == "not-run":
            missing.setdefault((result.configuration, result.message), []).append(result.check)
        else:
            _print_result(report, result, console)
    for (configuration, message), checks in missing.items():
        _print_missing(configuration, message, checks, console)
    if found:
        console.print()


def _print_missing(configuration: str, message: str, checks: list[str], console: Console) -> None:
    # After Ctrl-C these may be all: a block for each would hide the results.
    look = render.LOOKS["not-run"]
    more = len(checks) - _MOST_NAMED
    named = ", ".join(checks[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
    title = Text(f"{look.mark} not-run ", style=look.colour)
    number = count_text(len(checks), "check")
    title.append(f"{number} on {configuration}: {named}", style="default")
    console.print(title)
    if message:
        console.print(Text(indent(message, "    ")))


def _print_result(report: Report, result: Result, console: Console) -> None:
    look = render.LOOKS[result.result]
    required = {"yes": "required", "no": "optional"}
    word = render.required(report, result.check)
    title = Text(f"{look.mark} {result.result} ", style=look.colour)
    title.append(
        f"{result.check} on {result.configuration} ({required.get(word, f'required {word}')})",
        style="default",
    )
    console.print(title)
    if result.message:
        console.print(Text(indent(result.message, "    ")))
    if render.counts_against(report, result):
        console.print(Text(f"    again: {result.reproduce}", style="dim"))


def _print_verdict(report: Report, console: Console) -> None:
    verdict = judge(report)
    for reason in _reasons_beyond_results(report):
        console.print(Text(f"because: {reason}"))
    for limit in verdict.limits:
        console.print(Text(f"note: {limit}"))
    line = Text(f"{report.header.backend}: ")
    colour = render.VERDICT_COLOURS.get(verdict.name, "cyan")
    line.append(render.VERDICTS[verdict.name], style=f"bold {colour}")
    line.append(f" ({render.summary(report)})")
    console.print(line)


def _reasons_beyond_results(report: Report) -> list[str]:
    # Those about one result were printed with it.
    printed = {f"{each.check} " for each in render.remarkable(report)}
    return [r for r in judge(report).reasons if not any(r.startswith(check) for check in printed)]
