"""The report as JUnit XML, which most CI systems read: one suite per configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from unidev_conformance.judging.verdict import judge
from unidev_conformance.reports.render import VERDICTS, counts_against

if TYPE_CHECKING:
    from unidev_conformance.judging.report import Configuration, Report, Result


def to_junit(report: Report) -> str:
    """The report as an XML document.

    ``unsupported``, ``xfail`` and ``not-applicable`` are JUnit's "skipped", its only word for what
    is neither right nor wrong. A problem that belongs to no check, but affects the verdict, becomes
    a case of its own, so that CI does not accept an incomplete run.
    """
    root = ET.Element("testsuites", name=f"unidev conformance of {report.header.backend}")
    for configuration in report.header.configurations:
        results = [r for r in report.results if r.configuration == configuration.name]
        root.append(_suite(report, configuration, results))
    root.append(_verdict_suite(report))
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _suite(report: Report, configuration: Configuration, results: list[Result]) -> ET.Element:
    cases = [_case(report, each) for each in results]
    suite = _counted_suite(f"{report.header.backend}.{configuration.name}", cases)
    suite.set("timestamp", report.header.started)
    suite.set("time", f"{sum(each.seconds for each in results):.3f}")
    return suite


def _case(report: Report, result: Result) -> ET.Element:
    group, _, name = result.check.partition(".")
    case = ET.Element(
        "testcase",
        classname=f"{report.header.backend}.{result.configuration}.{group}",
        name=name,
        time=f"{result.seconds:.3f}",
    )
    if result.result == "pass":
        return case
    tag = "skipped"
    if counts_against(report, result):
        tag = "failure" if result.result in ("fail", "xpass") else "error"
    what = ET.SubElement(case, tag, message=f"{result.result}: {xml_text(result.message)}"[:500])
    what.text = xml_text(f"{result.message}\n\nTo run it again: {result.reproduce}")
    return case


def _verdict_suite(report: Report) -> ET.Element:
    verdict = judge(report)
    case = ET.Element("testcase", classname=f"{report.header.backend}.verdict", name="verdict")
    if verdict.reasons:
        tag = "failure" if verdict.exit_code == 1 else "error"
        what = ET.SubElement(case, tag, message=VERDICTS[verdict.name])
        what.text = xml_text("\n".join(verdict.reasons))
    return _counted_suite(f"{report.header.backend}.verdict", [case])


def _counted_suite(name: str, cases: list[ET.Element]) -> ET.Element:
    suite = ET.Element("testsuite", name=name, tests=str(len(cases)))
    for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(attribute, str(sum(case.find(tag) is not None for case in cases)))
    suite.extend(cases)
    return suite


def xml_text(text: str) -> str:
    """``text`` without the characters that XML cannot hold at all, not even escaped."""
    return "".join(c if c in "\t\n" or (c >= " " and not _is_barred(c)) else "�" for c in text)


def _is_barred(character: str) -> bool:
    return "\ud800" <= character <= "\udfff" or character in "\ufffe\uffff"
