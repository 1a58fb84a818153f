"""A badge, as JSON for shields.io endpoint badges: words and numbers, never a percentage."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from unidev.conformance.judging.verdict import (
    CONFORMS,
    DOES_NOT_CONFORM,
    INCOMPLETE,
    SELECTION_PASSES,
    judge,
)
from unidev.conformance.reports.report import counts

if TYPE_CHECKING:
    from unidev.conformance.reports.report import Report

_COLOURS = {
    CONFORMS: "brightgreen",
    DOES_NOT_CONFORM: "red",
    INCOMPLETE: "orange",
    SELECTION_PASSES: "blue",
}
_WORDS = {
    CONFORMS: "conforms",
    DOES_NOT_CONFORM: "does not conform",
    INCOMPLETE: "incomplete",
    SELECTION_PASSES: "selection only",
}


def to_badge(report: Report) -> str:
    """The badge as JSON text."""
    verdict = judge(report)
    found = counts(report.results)
    shown = [f"{number} {kind}" for kind, number in found.items() if kind != "not-applicable"]
    badge = {
        "schemaVersion": 1,
        "label": f"unidev {report.header.profile} v{report.header.suite_version}",
        "message": f"{_WORDS[verdict.name]}: {', '.join(shown) or 'nothing ran'}",
        "color": _COLOURS[verdict.name],
        "isError": verdict.name == DOES_NOT_CONFORM,
    }
    return json.dumps(badge, indent=1, ensure_ascii=False) + "\n"
