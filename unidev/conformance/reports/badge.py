"""A badge, as JSON for shields.io endpoint badges: words and numbers, never a percentage."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from unidev.conformance.judging import verdict
from unidev.conformance.reports.report import counts

if TYPE_CHECKING:
    from unidev.conformance.reports.report import Report

_LOOKS = {
    verdict.CONFORMS: ("conforms", "brightgreen"),
    verdict.DOES_NOT_CONFORM: ("does not conform", "red"),
    verdict.INCOMPLETE: ("incomplete", "orange"),
    verdict.SELECTION_PASSES: ("selection only", "blue"),
}
"""The word and the colour of each verdict."""


def to_badge(report: Report) -> str:
    """The badge as JSON text."""
    name = verdict.judge(report).name
    words, colour = _LOOKS[name]
    found = counts(report.results)
    shown = [f"{number} {kind}" for kind, number in found.items() if kind != "not-applicable"]
    badge = {
        "schemaVersion": 1,
        "label": f"unidev {report.header.profile} v{report.header.suite_version}",
        "message": f"{words}: {', '.join(shown) or 'nothing ran'}",
        "color": colour,
        "isError": name == verdict.DOES_NOT_CONFORM,
    }
    return json.dumps(badge, indent=1, ensure_ascii=False) + "\n"
