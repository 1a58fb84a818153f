"""The report: what was run, on what, the results, and a footer that reveals a truncated one.

Everything else (terminal, Markdown, HTML, JUnit, badge) is made from this, never from the run.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from unidev.conformance.running.events import CHILD_RESULTS, CheckEntry, plain, rebuilt

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from unidev.registry.description import Capability, DeviceEntry

FORMAT = "unidev-conformance-report"
FORMAT_VERSION = 1

RESULTS = (*CHILD_RESULTS, "crash", "timeout", "not-run")
"""Every possible result: a child's own, and the parent's for a child that stopped reporting."""


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """A set of devices on which the checks were run."""

    name: str
    """``host``, or ``simulate-4``."""
    simulated: int
    devices: tuple[DeviceEntry, ...] = ()
    capabilities: Mapping[str, Capability] = field(default_factory=dict)
    calibration: Mapping[str, Any] = field(default_factory=dict)
    """Result and evidence of the check that the probe distinguishes "same" from "different"."""
    problems: tuple[str, ...] = ()
    """Problems that fail the run and belong to no check, such as an expired expectation."""
    interruptions: tuple[str, ...] = ()
    """Why the run is incomplete: a child that did not start, or that ended early."""
    remarks: tuple[str, ...] = ()
    """Observations that do not affect the verdict."""


@dataclass(frozen=True, kw_only=True)
class Header:
    """What was judged, where and how."""

    suite_version: str
    unidev_version: str
    backend: str
    framework: str
    framework_version: str
    python: str
    platform: str
    profile: str
    selection: tuple[str, ...] | None
    """The checks that ``--only`` named; None for the whole profile."""
    command: str
    started: str
    """When, in UTC, as ISO 8601."""
    seconds: float
    timeout_s: float
    notes: tuple[str, ...]
    """What a reader must know to interpret the verdict: no simulator, interrupted."""
    checks: tuple[CheckEntry, ...]
    """The profile's complete list, run or not."""
    configurations: tuple[Configuration, ...]


@dataclass(frozen=True, kw_only=True)
class Result:
    """The result of one check in one configuration."""

    check: str
    configuration: str
    profile: str
    required: bool
    result: str
    """One of ``RESULTS``."""
    seconds: float
    devices: tuple[str, ...]
    message: str
    evidence: Mapping[str, Any]
    reproduce: str
    """A command line that repeats just this."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """A header and the results, one for each check that was selected in each configuration."""

    header: Header
    results: tuple[Result, ...]

    @property
    def selected(self) -> tuple[CheckEntry, ...]:
        """The selected checks."""
        wanted = self.header.selection
        return tuple(c for c in self.header.checks if wanted is None or c.check in wanted)

    def result(self, check: str, configuration: str) -> Result | None:
        """The result of ``check`` in ``configuration``."""
        for each in self.results:
            if (each.check, each.configuration) == (check, configuration):
                return each
        return None


class ReportError(ValueError):
    """Text that is not a report, or was changed since it was written."""


def counts(results: Iterable[Result]) -> dict[str, int]:
    """The number of results of each kind; kinds that did not occur are left out."""
    found = Counter(each.result for each in results)
    return {kind: found[kind] for kind in RESULTS if found[kind]}


def to_json(report: Report) -> str:
    """The report as text, one value per line."""
    document = to_document(report)
    return json.dumps(document, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def to_document(report: Report) -> dict[str, Any]:
    """The report as plain values, the footer included."""
    body = plain(report)
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        **body,
        "footer": expected_footer(report),
    }


def expected_footer(report: Report) -> dict[str, Any]:
    """What the footer of this report must contain."""
    from unidev.conformance.judging.verdict import judge

    verdict = judge(report)
    by_configuration = {
        each.name: counts(r for r in report.results if r.configuration == each.name)
        for each in report.header.configurations
    }
    return {
        "checks": len(report.header.checks),
        "configurations": len(report.header.configurations),
        "results": len(report.results),
        "counts": counts(report.results),
        "counts_by_configuration": by_configuration,
        "verdict": verdict.name,
        "reasons": list(verdict.reasons),
        "limits": list(verdict.limits),
    }


def read_document(text: str) -> dict[str, Any]:
    """The plain values of a report's text, not yet checked.

    Raises:
        ReportError: it is not a JSON object; says where parsing fails.
    """
    try:
        document = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except ReportError:
        raise
    except (ValueError, RecursionError) as error:
        raise ReportError(f"it is not JSON, so it was truncated or changed: {error}") from error
    if not isinstance(document, dict):
        raise ReportError("it is JSON, but not a report: an object is needed.")
    return document


def from_document(document: Mapping[str, Any]) -> Report:
    """The report from plain values that match the schema."""
    header = dict(document["header"])
    header["configurations"] = [rebuilt(Configuration, each) for each in header["configurations"]]
    results = tuple(rebuilt(Result, each) for each in document["results"])
    return Report(header=rebuilt(Header, header), results=results)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, times in Counter(name for name, _ in pairs).items() if times > 1]
        raise ReportError(f"{', '.join(names)} occurs twice in one place: it was changed.")
    return found


def _no_constant(name: str) -> NoReturn:
    raise ReportError(f"{name} is not a number that a report can hold: it was changed.")
