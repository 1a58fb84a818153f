"""The conclusion from the results: whether the backend conforms, and if not, why."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from unidev_conformance import HARDWARE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from unidev_conformance.judging.report import Report, Result

CONFORMS = "conforms"
DOES_NOT_CONFORM = "does-not-conform"
INCOMPLETE = "incomplete"
SELECTION_PASSES = "selection-passes"
"""Everything that ``--only`` selected is right; the rest was not judged."""

NOT_A_JUDGEMENT = "not-a-judgement"
"""What ``--quick`` drew is right; that is too little to say anything of the backend."""

EXIT_CODES = {
    CONFORMS: 0, SELECTION_PASSES: 0, DOES_NOT_CONFORM: 1, INCOMPLETE: 3, NOT_A_JUDGEMENT: 5,
}  # fmt: skip

WRONG = ("fail", "error", "xpass")
"""Results that keep a backend from conforming, whether the check is required or optional."""
_MISSING = ("crash", "timeout", "not-run")


@dataclass(frozen=True)
class Verdict:
    """A verdict and its grounds."""

    name: str
    reasons: tuple[str, ...]
    """Why it is not ``conforms``; empty otherwise."""
    limits: tuple[str, ...]
    """Gaps in the verdict's coverage, such as checks that no configuration could run."""

    @property
    def exit_code(self) -> int:
        """The exit status of ``unidev conform``."""
        return EXIT_CODES[self.name]


def judge(report: Report) -> Verdict:
    """The verdict on ``report``.

    Wrong results outweigh missing ones: a failure is a failure, whatever else is unknown.
    """
    wrong = [*_problems(report), *_wrong(report)]
    missing = list(_missing(report))
    limits = tuple(_limits(report))
    if wrong:
        return Verdict(DOES_NOT_CONFORM, (*wrong, *missing), limits)
    if missing:
        return Verdict(INCOMPLETE, tuple(missing), limits)
    if report.header.is_quick:
        return Verdict(NOT_A_JUDGEMENT, (), limits)
    if report.header.selection is not None:
        return Verdict(SELECTION_PASSES, (), limits)
    return Verdict(CONFORMS, (), limits)


def is_wrong(result: Result, needs: tuple[str, ...]) -> str | None:
    """Why a result counts against the backend, or None."""
    if result.result in WRONG:
        return result.result
    if not result.required:
        return None
    if result.result == "xfail":
        return "a known failure, which is not allowed for a required check"
    if result.result == "unsupported" and not needs:
        return "unsupported, which is not allowed for a required check"
    return None


def _wrong(report: Report) -> Iterator[str]:
    needs = {each.check: each.needs for each in report.header.checks}
    for each in report.results:
        why = is_wrong(each, needs.get(each.check, ()))
        if why is not None:
            kind = "required" if each.required else "optional"
            yield f"{each.check} ({kind}) on {each.configuration}: {why}"


def _problems(report: Report) -> Iterator[str]:
    for configuration in report.header.configurations:
        for problem in configuration.problems:
            yield f"{configuration.name}: {problem}"


def _missing(report: Report) -> Iterator[str]:
    for configuration in report.header.configurations:
        for interruption in configuration.interruptions:
            yield f"{configuration.name}: {interruption}"
        if not configuration.devices and not configuration.interruptions:
            yield f"{configuration.name}: the child did not report its devices"
    if not report.selected or not report.header.configurations:
        yield "no check was run"
    lacking = len(report.selected) * len(report.header.configurations) - len(report.results)
    if lacking:
        yield f"{lacking} results are missing"
    for each in report.results:
        if each.result in _MISSING:
            yield f"{each.check} on {each.configuration}: {each.result}"
    # One configuration with nothing to do is normal; a complete run of them proves nothing.
    if report.results and all(each.result == "not-applicable" for each in report.results):
        yield "no check was applicable in any configuration"
    devices = [each for one in report.header.configurations for each in one.devices]
    is_seen = any(each.device.startswith("gpu") and not each.simulated for each in devices)
    if report.header.profile == HARDWARE and devices and not is_seen:
        yield "the profile is about real GPUs, and the framework has none here"


def _limits(report: Report) -> Iterator[str]:
    yield from report.header.notes
    for configuration in report.header.configurations:
        for remark in configuration.remarks:
            yield f"{configuration.name}: {remark}"
    if report.header.selection is not None:
        some, of = len(report.selected), len(report.header.checks)
        yield f"{some} of the profile's {of} checks were selected"
    applicable = Counter(each.check for each in report.results if each.result != "not-applicable")
    never = [each.check for each in report.selected if each.required and not applicable[each.check]]
    if never and report.results:
        yield f"required, but applicable in no configuration that was run: {', '.join(never)}"
