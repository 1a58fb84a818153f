"""Shared by all renderings: words, marks and colours for results, and a summary."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from unidev.system.wording import count_text
from unidev_conformance.judging.report import counts
from unidev_conformance.judging.verdict import (
    CONFORMS,
    DOES_NOT_CONFORM,
    INCOMPLETE,
    NOT_A_JUDGEMENT,
    SELECTION_PASSES,
    is_wrong,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from unidev_conformance.judging.report import Configuration, Report, Result


class Look(NamedTuple):
    """How a result is shown. The word always accompanies the mark, so colour is not needed."""

    mark: str
    colour: str
    """A terminal colour's name."""
    meaning: str


LOOKS = {
    "pass": Look("✓", "green", "proved"),
    "fail": Look("✗", "red", "proved wrong"),
    "error": Look("✗", "red", "could not be decided"),
    "crash": Look("‼", "red", "the process died"),
    "timeout": Look("‼", "red", "no sign of life"),
    "xfail": Look("~", "yellow", "fails, as the backend declares with a reason"),
    "xpass": Look("✗", "red", "passes, though the backend expects a failure"),
    "unsupported": Look("-", "yellow", "declared unsupported by the backend; not a pass"),
    "not-applicable": Look("·", "bright_black", "nothing to check in this configuration"),
    "not-run": Look("?", "magenta", "never begun"),
}

VERDICTS = {
    CONFORMS: "conforms",
    DOES_NOT_CONFORM: "does not conform",
    INCOMPLETE: "incomplete: no verdict",
    SELECTION_PASSES: "the selected checks pass; no verdict on the rest",
    NOT_A_JUDGEMENT: "not a judgement: --quick drew a tenth of the checks, and none of them fails",
}
VERDICT_COLOURS = {CONFORMS: "green", DOES_NOT_CONFORM: "red", INCOMPLETE: "magenta"}
"""The others are cyan."""


def counted(found: dict[str, int]) -> str:
    """``80 pass, 2 unsupported``."""
    return ", ".join(f"{number} {kind}" for kind, number in found.items()) or "no results"


def summary(report: Report) -> str:
    """How many checks in how many configurations, and their results."""
    checks, configurations = len(report.selected), len(report.header.configurations)
    return (
        f"{count_text(checks, 'check')} in {count_text(configurations, 'configuration')}: "
        f"{counted(counts(report.results))}"
    )


def devices_of(configuration: Configuration) -> str:
    """``cpu:0 (hardware), gpu:0 (simulated)``, each with its name; or that they are unknown."""
    listed = [
        f"{each.device} {'(simulated)' if each.simulated else f'({each.name})'}"
        for each in configuration.devices
    ]
    return ", ".join(listed) or "unknown"


def required(report: Report, check: str) -> str:
    """``yes``, ``no``, or what must be there: ``where there is autograd``."""
    (entry,) = (each for each in report.header.checks if each.check == check)
    if not entry.required or not entry.needs:
        return "yes" if entry.required else "no"
    names = (_ABILITIES.get(each, each.rpartition(".")[2]) for each in entry.needs)
    return f"where there is {' and '.join(dict.fromkeys(names))}"


_ABILITIES = {"probe.gradient": "autograd", "probe.allocated_bytes": "a count of memory"}
"""Where an ability's name says less."""


def remarkable(report: Report) -> Iterator[Result]:
    """Results that a reader must see: those that are neither a pass nor inapplicable."""
    return (each for each in report.results if each.result not in ("pass", "not-applicable"))


def counts_against(report: Report, result: Result) -> bool:
    """Whether this result is a reason why the verdict is not ``conforms``."""
    needs = {each.check: each.needs for each in report.header.checks}
    missing = result.result in ("crash", "timeout", "not-run")
    return missing or is_wrong(result, needs.get(result.check, ())) is not None


def facts(report: Report) -> list[tuple[str, str]]:
    """The header, as pairs of a name and a value."""
    header = report.header
    return [
        ("backend", header.backend),
        ("framework", f"{header.framework} {header.framework_version}".strip()),
        ("profile", f"{header.profile}, suite version {header.suite_version}"),
        ("unidev", header.unidev_version),
        ("Python", header.python),
        ("system", header.platform),
        ("command", header.command),
        ("started", f"{header.started}, took {header.seconds:.1f} s"),
    ]
