"""A report of the suite as Markdown, as JUnit's XML, and in a terminal."""

from __future__ import annotations

import dataclasses
import io
from xml.etree import ElementTree as ET

import pytest
from made_reports import NASTY, report
from rich.console import Console

from unidev_conformance.judging.report import RESULTS
from unidev_conformance.reports.junit import to_junit
from unidev_conformance.reports.markdown import to_markdown
from unidev_conformance.reports.terminal import print_report


def test_what_is_required_where_it_can_be_is_called_that() -> None:
    made = report()
    assert "| copy.gradient | where there is autograd | - unsupported |" in to_markdown(made)
    out = io.StringIO()
    print_report(made, Console(file=out, width=200))
    assert "where there is autograd" in out.getvalue()


def test_markdown_has_no_markup_and_no_escapes_of_a_backend() -> None:
    made = report("fail unsupported pass", f"~~~\n</pre># not a heading\x1b[31m\x9b {NASTY}")
    made = dataclasses.replace(made, header=dataclasses.replace(made.header, backend=NASTY))
    page = to_markdown(made)
    assert page.count("<pre>") == page.count("</pre>") == page.count("<") / 2
    assert "~~~\n&lt;/pre&gt;# not a heading\\u001b[31m\\u009b" in page
    assert "&lt;script&gt;alert('1')&lt;/script&gt; \\| \\`x\\`" in page
    assert all(c.isprintable() or c == "\n" for c in page)


def test_junit_counts_what_spoils_the_verdict_and_skips_the_rest() -> None:
    root = ET.fromstring(to_junit(report("fail unsupported crash", NASTY)))
    host, _simulated, verdict_suite = root
    assert (host.get("tests"), host.get("failures"), host.get("errors")) == ("3", "1", "1")
    assert host.get("skipped") == "1"
    assert verdict_suite.get("failures") == "1"


def test_junit_is_red_when_a_run_was_cut_short() -> None:
    root = ET.fromstring(to_junit(report("pass pass not-run")))
    assert root[-1].get("errors") == "1"


@pytest.mark.parametrize("kind", RESULTS)
def test_every_result_can_be_shown_in_every_way(kind) -> None:
    made = report(f"{kind} {kind} {kind}", "why")
    assert kind in to_markdown(made)
    ET.fromstring(to_junit(made))


def test_checks_that_were_not_run_are_one_line_for_a_configuration() -> None:
    out = io.StringIO()
    print_report(report("not-run not-run not-run", "interrupted"), Console(file=out, width=200))
    shown = out.getvalue()
    named = "smoke.probe_calibrated, copy.gradient, copy.optional"
    assert f"? not-run 3 checks on host: {named}\n    interrupted\n" in shown
    assert shown.count("not-run 3 checks") == 2  # in two configurations
    assert "again:" not in shown
