"""The report as one self-contained HTML file: a matrix of checks and configurations."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from unidev.conformance.judging.verdict import judge
from unidev.conformance.reports import render
from unidev.conformance.reports.report import counts
from unidev.conformance.running.events import plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from markupsafe import Markup

    from unidev.conformance.reports.report import Report


def to_html(report: Report) -> str:
    """The report as an HTML page; all is escaped, since messages quote the backend."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("unidev.conformance.reports", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["code"] = _code
    page: str = environment.get_template("report.html.jinja").render(_content(report))
    return page


def _code(text: str) -> Markup:
    """``text``, escaped; what stands in backticks as code."""
    from markupsafe import Markup, escape

    return Markup(re.sub(r"(`+)(.+?)\1", r"<code>\2</code>", str(escape(text))))  # noqa: S704


def _content(report: Report) -> dict[str, Any]:
    verdict = judge(report)
    found = counts(report.results)
    return {
        "title": f"Conformance of {report.header.backend}: {render.VERDICTS[verdict.name]}",
        "verdict": verdict,
        "summary": render.summary(report),
        "facts": render.facts(report),
        "configurations": list(_configurations(report)),
        "groups": _groups(report),
        "legend": [(kind, render.LOOKS[kind], render.MEANINGS[kind]) for kind in found],
        "details": list(_details(report)),
        "capabilities": _capabilities(report),
    }


def _configurations(report: Report) -> Iterator[dict[str, Any]]:
    for each in report.header.configurations:
        results = counts(r for r in report.results if r.configuration == each.name)
        calibration = json.dumps(plain(each.calibration), ensure_ascii=False, indent=1)
        yield {
            "name": each.name,
            "devices": render.devices_of(each),
            "counted": render.counted(results),
            "calibration": calibration if each.calibration else "not calibrated",
        }


def _groups(report: Report) -> dict[str, list[dict[str, Any]]]:
    groups: dict[str, list[dict[str, Any]]] = {}
    for check in report.selected:
        required = render.required(report, check.check)
        row = {"check": check, "required": required, "cells": list(_cells(report, check.check))}
        groups.setdefault(check.check.partition(".")[0], []).append(row)
    return groups


def _cells(report: Report, check: str) -> Iterator[dict[str, Any]]:
    for configuration in report.header.configurations:
        result = report.result(check, configuration.name)
        kind = result.result if result else "not-run"
        linked = result is not None and kind not in ("pass", "not-applicable")
        yield {
            "kind": kind,
            "look": render.LOOKS[kind],
            "anchor": _anchor(check, configuration.name) if linked else None,
            "message": result.message if result else "",
        }


def _details(report: Report) -> Iterator[dict[str, Any]]:
    for result in render.remarkable(report):
        evidence = json.dumps(plain(result.evidence), ensure_ascii=False, indent=1)
        yield {
            "result": result,
            "look": render.LOOKS[result.result],
            "anchor": _anchor(result.check, result.configuration),
            "counts": render.counts_against(report, result),
            "required": render.required(report, result.check),
            "evidence": evidence if result.evidence else None,
        }


def _capabilities(report: Report) -> list[tuple[str, str, str, str | None]]:
    listed: dict[str, tuple[str, str, str, str | None]] = {}
    for configuration in report.header.configurations:
        for name, each in configuration.capabilities.items():
            word = "yes" if each.supported else "no"
            listed.setdefault(name, (name, word, each.reason or "", _safe(each.link)))
    return list(listed.values())


def _safe(link: str | None) -> str | None:
    # Escaping does not make a javascript: address harmless.
    return link if link is not None and link.startswith(("https://", "http://")) else None


def _anchor(check: str, configuration: str) -> str:
    return f"{check}-{configuration}".replace(".", "-")
