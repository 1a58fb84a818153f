"""A report as JSON, with the verdict in its footer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from unidev_conformance.events import plain
from unidev_conformance.judging.report import counts
from unidev_conformance.judging.verdict import judge

if TYPE_CHECKING:
    from unidev_conformance.judging.report import Report

FORMAT = "unidev-conformance-report"
FORMAT_VERSION = 1


def to_json(report: Report) -> str:
    """The report as text, one value per line."""
    document = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        **plain(report),
        "footer": _footer(report),
    }
    return json.dumps(document, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def _footer(report: Report) -> dict[str, Any]:
    verdict = judge(report)
    by_configuration = {
        each.name: counts(r for r in report.results if r.configuration == each.name)
        for each in report.header.configurations
    }
    return {
        "counts": counts(report.results),
        "counts_by_configuration": by_configuration,
        "verdict": verdict.name,
        "reasons": list(verdict.reasons),
        "limits": list(verdict.limits),
    }
