"""Whether a report is complete, and its verdict follows from its results.

Each step checks one thing and reports what is wrong with it; a later step relies on the earlier.
"""

from __future__ import annotations

import json
import re
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from unidev.conformance import SUITE_VERSION
from unidev.conformance.reports.report import (
    FORMAT_VERSION,
    Report,
    ReportError,
    expected_footer,
    from_document,
    read_document,
)
from unidev.conformance.running.events import CHILD_RESULTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from unidev.conformance.running.events import CheckEntry

_MOST_NAMED = 8


def verify(text: str) -> Report:
    """The complete report that ``text`` holds.

    Raises:
        ReportError: it is not complete or valid; one line for each problem.
    """
    document = read_document(text)
    _complain(_misfits(document))
    report = from_document(document)
    _complain(_disagreements(document, report))
    return report


def expected_checks(profile: str) -> tuple[CheckEntry, ...]:
    """The checks of a profile in this version of the suite."""
    from unidev.conformance.running.catalog import all_checks

    return tuple(each.entry() for each in all_checks(profile))


def _misfits(document: Mapping[str, Any]) -> Iterator[str]:
    import jsonschema  # type: ignore[import-untyped]  # its stubs are a distribution apart

    version = document.get("format_version")
    if isinstance(version, int) and version != FORMAT_VERSION:
        yield f"its format is version {version}; this unidev reads version {FORMAT_VERSION}"
        return
    schema = json.loads(
        files("unidev.conformance.reports").joinpath("schema.json").read_text("utf-8")
    )
    validator = jsonschema.Draft202012Validator(schema)
    for error in sorted(validator.iter_errors(document), key=lambda each: each.json_path):
        yield f"at {error.json_path}: {error.message[:200]}"


def _disagreements(document: Mapping[str, Any], report: Report) -> Iterator[str]:
    yield from _list_of_checks(report)
    yield from _list_of_configurations(report)
    yield from _list_of_results(report)
    yield from _calibrations(report)
    yield from _groundless(report)
    for name, expected in expected_footer(report).items():
        found = document["footer"][name]
        if found != expected:
            yield f"the footer's {name} is {found!r:.200}; the results give {expected!r:.200}"


def _list_of_checks(report: Report) -> Iterator[str]:
    header = report.header
    if not header.checks:
        return  # a run that never began; its verdict covers that
    if header.suite_version != SUITE_VERSION:
        yield (
            f"it was made with version {header.suite_version} of the suite, and this is version "
            f"{SUITE_VERSION}: verify it with the unidev that made it ({header.unidev_version})"
        )
        return
    expected = expected_checks(header.profile)
    found, wanted = [c.check for c in header.checks], [c.check for c in expected]
    if found != wanted:
        yield from _differences("list of checks", found, wanted)
    elif header.checks != expected:
        changed = [a.check for a, b in zip(header.checks, expected, strict=True) if a != b]
        yield f"the list of checks differs from the suite's in {_named(changed)}"


def _list_of_configurations(report: Report) -> Iterator[str]:
    from unidev.conformance.running.runner import DEFAULT_SIMULATED, configuration_name

    given = re.findall(r" --simulate[ =](\d+)", report.header.command)
    counts = (0, *([int(given[-1])] if given else DEFAULT_SIMULATED))
    wanted = [configuration_name(count) for count in dict.fromkeys(counts)]
    configurations = report.header.configurations
    found = [each.name for each in configurations]
    host = configurations[0] if configurations else None
    simulator = host.capabilities.get("simulator") if host else None
    may_be_alone = not simulator.supported if simulator else host is not None and not host.devices
    if found != wanted and not (may_be_alone and found == wanted[:1]):
        yield from _differences("list of configurations", found, wanted)
    elif found != [configuration_name(each.simulated) for each in configurations]:
        yield "the names of the configurations differ from their numbers of simulated devices"


def _calibrations(report: Report) -> Iterator[str]:
    from unidev.conformance.running.configuration_run import CALIBRATION

    for each in report.header.configurations:
        result = report.result(CALIBRATION, each.name)
        expected = {}
        if result is not None and result.result in CHILD_RESULTS:
            expected = {"result": result.result, **result.evidence}
        if each.calibration != expected:
            yield f"the calibration of {each.name} is not the result of {CALIBRATION}"


def _groundless(report: Report) -> Iterator[str]:
    """Results that contradict what the report says of them elsewhere."""
    needs = {each.check: each.needs for each in report.header.checks}
    places = {each.name: each.capabilities for each in report.header.configurations}
    for each in report.results:
        where, able = f"{each.check} on {each.configuration}", places.get(each.configuration, {})
        declined = [
            name for name in needs.get(each.check, ()) if name in able and not able[name].supported
        ]
        if each.result == "pass" and each.message:
            yield f"{where} passes, but has the message of a failure: {each.message[:200]}"
        elif each.result == "pass" and declined:
            yield f"{where} passes, but needs {declined[0]}, which is declared unsupported"
        elif each.result == "unsupported" and not declined:
            yield f"{where} is unsupported, but the backend declares all that it needs"


def _list_of_results(report: Report) -> Iterator[str]:
    configurations = [each.name for each in report.header.configurations]
    wanted = [f"{c.check} on {name}" for name in configurations for c in report.selected]
    found = [f"{each.check} on {each.configuration}" for each in report.results]
    if found != wanted:
        yield from _differences("results", found, wanted)
    known = {each.check: each for each in report.header.checks}
    changed = [
        f"{each.check} on {each.configuration}"
        for each in report.results
        if each.check in known
        and (each.required, each.profile) != (known[each.check].required, known[each.check].profile)
    ]
    if changed:
        yield f"required or profile differs from the list of checks in {_named(changed)}"


def _differences(what: str, found: list[str], wanted: list[str]) -> Iterator[str]:
    lacking = [each for each in wanted if each not in set(found)]
    extra = [each for each in found if each not in set(wanted)]
    if lacking:
        yield f"the {what} lacks {_named(lacking)}"
    if extra:
        yield f"the {what} has {_named(extra)}, which should not be there"
    if not lacking and not extra:
        yield f"the {what} is in another order, or has duplicates"


def _named(names: list[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _complain(complaints: Iterator[str]) -> None:
    found = list(complaints)
    if found:
        raise ReportError("\n".join(found))
