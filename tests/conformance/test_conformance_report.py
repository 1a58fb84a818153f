from __future__ import annotations

import dataclasses
import io
import json
from xml.etree import ElementTree as ET

import pytest
from html_words import words_of
from rich.console import Console

from unidev.conformance.judging import verify as verify_module
from unidev.conformance.judging.verdict import judge
from unidev.conformance.judging.verify import verify
from unidev.conformance.reports.badge import to_badge
from unidev.conformance.reports.html import to_html
from unidev.conformance.reports.junit import to_junit
from unidev.conformance.reports.markdown import to_markdown
from unidev.conformance.reports.report import (
    RESULTS,
    Configuration,
    Header,
    Report,
    ReportError,
    Result,
    expected_footer,
    from_document,
    to_document,
    to_json,
)
from unidev.conformance.reports.terminal import print_report
from unidev.conformance.running.events import CHILD_RESULTS, CheckEntry
from unidev.registry.description import Capability, DeviceEntry
from unidev.support.wording import plain

NASTY = "<script>alert('1')</script> | `x` *y* ~~~~ \x00 \ud800 & [z](javascript:alert)"

CHECKS = (
    CheckEntry(check="smoke.probe_calibrated", profile="tensor", required=True, summary="One."),
    CheckEntry(
        check="copy.gradient", profile="tensor", required=True, needs=("probe.gradient",)
    ),
    CheckEntry(check="copy.optional", profile="tensor", required=False, summary="Three."),
)  # fmt: skip


EVIDENCE = {"extents": [[1, 2]], "nan": "NaN"}


def result(check: CheckEntry, configuration: str, kind: str, message: str = "") -> Result:
    return Result(
        check=check.check, configuration=configuration, profile="tensor", required=check.required,
        result=kind, seconds=0.25, devices=("cpu:0",), message=message,
        evidence=EVIDENCE, reproduce="unidev conform numpy",
    )  # fmt: skip


def report(kinds: str = "pass unsupported pass", message: str = "", **header) -> Report:
    first, second, _ = kinds.split()
    configurations = tuple(
        Configuration(
            name=name,
            simulated=simulated,
            devices=(DeviceEntry(device="cpu:0", native="cpu", name="host", simulated=False),),
            capabilities={
                "simulator": Capability(supported=True),
                "probe.gradient": Capability(
                    supported=second != "unsupported",
                    reason="none",
                    link="javascript:alert(1)",
                ),
            },
            calibration={"result": first, **EVIDENCE} if first in CHILD_RESULTS else {},
        )
        for name, simulated in (("host", 0), ("simulate-2", 2))
    )
    made = Header(
        suite_version="1", unidev_version="0.1.0", backend="numpy", framework="numpy",
        framework_version="2", python="3.11", platform="Linux", profile="tensor", selection=None,
        command="unidev conform numpy --simulate 2", started="2026-01-01T00:00:00+00:00",
        seconds=1.5, timeout_s=120.0, notes=(), checks=CHECKS, configurations=configurations,
    )  # fmt: skip
    results = tuple(
        result(check, each.name, kind, "" if kind == "pass" else message)
        for each in configurations
        for check, kind in zip(CHECKS, kinds.split(), strict=True)
    )
    return Report(header=dataclasses.replace(made, **header), results=results)


@pytest.fixture(autouse=True)
def these_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify_module, "expected_checks", lambda _profile: CHECKS)


def verdict(kinds: str, **header) -> str:
    return judge(report(kinds, **header)).name


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        ("pass pass pass", "conforms"),
        ("pass unsupported unsupported", "conforms"),
        ("pass not-applicable xfail", "conforms"),
        ("unsupported pass pass", "does-not-conform"),
        ("xfail pass pass", "does-not-conform"),
        ("pass xfail pass", "does-not-conform"),
        ("pass pass xpass", "does-not-conform"),
        ("pass pass fail", "does-not-conform"),
        ("pass error pass", "does-not-conform"),
        ("pass fail crash", "does-not-conform"),
        ("pass pass crash", "incomplete"),
        ("timeout pass pass", "incomplete"),
        ("pass not-run pass", "incomplete"),
        ("not-applicable not-applicable not-applicable", "incomplete"),
    ],
)
def test_the_verdict_follows_from_the_results(kinds, expected) -> None:
    assert verdict(kinds) == expected


def test_no_checks_and_no_configurations_are_no_conformance() -> None:
    assert judge(Report(header=report().header, results=())).name == "incomplete"
    assert verdict("pass pass pass", checks=()) == "incomplete"
    assert verdict("pass pass pass", configurations=()) == "incomplete"


def test_what_no_configuration_could_check_is_named() -> None:
    limits = judge(report("pass not-applicable pass")).limits
    assert "applicable in no configuration that was run: copy.gradient" in limits[0]


def test_a_report_comes_back_as_it_was_written() -> None:
    text = to_json(report(message=NASTY)).encode().decode()
    assert to_json(verify(text)) == text


def test_a_report_with_any_line_cut_out_is_refused() -> None:
    whole = report("pass unsupported fail", "said\nthis")
    # The devices that a check used, and what was measured, follow from nothing else.
    results = [dataclasses.replace(each, devices=(), evidence={}) for each in whole.results]
    places = [
        dataclasses.replace(each, calibration={"result": "pass"})
        for each in whole.header.configurations
    ]
    header = dataclasses.replace(whole.header, configurations=tuple(places))
    text = to_json(Report(header=header, results=tuple(results)))
    lines = text.splitlines(keepends=True)
    for number in range(len(lines)):
        with pytest.raises(ReportError) as refusal:
            verify("".join(lines[:number] + lines[number + 1 :]))
        assert len(str(refusal.value)) > 20


def test_a_report_cut_short_anywhere_is_refused() -> None:
    text = to_json(report()).rstrip()
    for length in range(0, len(text), 37):
        with pytest.raises(ReportError, match="JSON"):
            verify(text[:length])


def edited(change) -> str:
    document = to_document(report("pass unsupported fail"))
    change(document)
    return json.dumps(document)


def drop_result(document) -> None:
    del document["results"][1]


def drop_check(document) -> None:
    del document["header"]["checks"][0]


def make_optional(document) -> None:
    document["results"][0]["required"] = False


def turn_into_pass(document) -> None:
    for each in document["results"]:
        each["result"] = "pass"


def change_verdict(document) -> None:
    document["footer"]["verdict"] = "conforms"


def swap_results(document) -> None:
    document["results"].reverse()


def relax_check(document) -> None:
    document["header"]["checks"][0]["needs"] = ["probe.gradient"]


def other_suite(document) -> None:
    document["header"]["suite_version"] = "0"


def invent_result(document) -> None:
    document["results"][0]["result"] = "perfect"


def add_field(document) -> None:
    document["header"]["stars"] = 5


def other_format(document) -> None:
    document["format_version"] = 2


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (drop_result, "the results lacks copy.gradient on host"),
        (drop_check, "the list of checks lacks smoke.probe_calibrated"),
        (make_optional, "differs from the list of checks in smoke.probe_calibrated on host"),
        (turn_into_pass, "the footer's counts"),
        (change_verdict, "the footer's verdict"),
        (swap_results, "in another order"),
        (relax_check, "list of checks differs from the suite's in smoke.probe_calibrated"),
        (other_suite, "version 0 of the suite"),
        (invent_result, "'perfect' is not one of"),
        (add_field, "'stars' was unexpected"),
        (other_format, "its format is version 2"),
    ],
)
def test_a_report_that_was_edited_is_refused(change, said) -> None:
    with pytest.raises(ReportError) as refusal:
        verify(edited(change))
    assert said in str(refusal.value)


def carry_a_failure(document) -> None:
    document["results"][0]["message"] = "the copy shares memory"


def declare_what_is_unsupported(document) -> None:
    document["header"]["configurations"][1]["capabilities"]["probe.gradient"]["supported"] = True


def pass_what_is_declined(document) -> None:
    document["results"][1].update(result="pass", message="")


def drop_calibration(document) -> None:
    document["header"]["configurations"][0]["calibration"] = {}


def other_calibration(document) -> None:
    document["results"][0]["evidence"] = {"seen": 1}


def drop_configuration(document) -> None:
    document["header"]["configurations"].pop()
    del document["results"][3:]


def drop_host(document) -> None:
    del document["header"]["configurations"][0]
    del document["results"][:3]


def misname_configuration(document) -> None:
    document["header"]["configurations"][1]["simulated"] = 0


def claim_both(document) -> None:
    document["header"]["command"] = "unidev conform numpy"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (carry_a_failure, "on host passes, but has the message of a failure: the copy shares"),
        (declare_what_is_unsupported, "on simulate-2 is unsupported, but the backend declares"),
        (pass_what_is_declined, "on host passes, but needs probe.gradient, which is declared"),
        (drop_calibration, "the calibration of host is not the result of smoke.probe_calibrated"),
        (other_calibration, "the calibration of host is not the result of smoke.probe_calibrated"),
        (drop_configuration, "the list of configurations lacks simulate-2"),
        (drop_host, "the list of configurations lacks host"),
        (misname_configuration, "differ from their numbers of simulated devices"),
        (claim_both, "the list of configurations lacks simulate-1, simulate-4"),
    ],
)
def test_a_report_is_recounted_even_if_its_footer_was_made_to_match(change, said) -> None:
    document = to_document(report("pass unsupported pass"))
    change(document)
    document["footer"] = expected_footer(from_document(document))
    with pytest.raises(ReportError) as refusal:
        verify(json.dumps(document))
    assert said in str(refusal.value)


def test_a_backend_without_a_simulator_is_judged_on_the_host_alone() -> None:
    document = to_document(report("pass unsupported pass"))
    drop_configuration(document)
    document["header"]["configurations"][0]["capabilities"]["simulator"]["supported"] = False
    document["footer"] = expected_footer(from_document(document))
    assert verify(json.dumps(document))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not JSON"),
        ("[]", "not a report"),
        ("{}", "required property"),
        ('{"a": 1, "a": 1}', "occurs twice"),
        ('{"a": NaN}', "NaN"),
        ("[" * 100_000, "not JSON"),
        ('{"format_version": "x"}', "format_version"),
    ],
)
def test_what_is_no_report_is_refused_with_what_it_is(text, said) -> None:
    with pytest.raises(ReportError, match=said):
        verify(text)


def test_html_escapes_what_a_backend_said() -> None:
    page = to_html(report("fail unsupported pass", NASTY.replace("\ud800", "")))
    assert "<script>" not in page
    assert 'href="javascript:' not in page
    assert page.count("<table") >= 3
    assert "http://" not in page.replace("http://www.w3.org", "")


def test_what_is_required_where_it_can_be_is_called_that_and_code_is_code() -> None:
    code = dataclasses.replace(
        CHECKS[0], summary="New tensors land there in ``with device:`` & `a < b`."
    )
    made = report()
    header = dataclasses.replace(made.header, checks=(code, *CHECKS[1:]))
    made = dataclasses.replace(made, header=header)
    page = to_html(made)
    assert "there in <code>with device:</code> &amp; <code>a &lt; b</code>." in page
    assert "`" not in page
    assert "<td>where there is autograd</td>" in page
    assert "copy.gradient on host (required where there is autograd)" in page
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


def test_a_badge_has_words_and_numbers_and_no_percentage() -> None:
    badge = json.loads(to_badge(report()))
    assert badge["schemaVersion"] == 1
    assert badge["message"] == "conforms: 4 pass, 2 unsupported"
    assert "%" not in badge["message"]


@pytest.mark.parametrize("kind", RESULTS)
def test_every_result_can_be_shown_in_every_way(kind) -> None:
    made = report(f"{kind} {kind} {kind}", "why")
    for text in (to_html(made), to_markdown(made)):
        assert kind in text
    ET.fromstring(to_junit(made))
    made = report(f"pass {kind} pass", "why")
    assert to_json(verify(to_json(made))) == to_json(made)


def test_checks_that_were_not_run_are_one_line_for_a_configuration() -> None:
    out = io.StringIO()
    print_report(report("not-run not-run not-run", "interrupted"), Console(file=out, width=200))
    shown = out.getvalue()
    named = "smoke.probe_calibrated, copy.gradient, copy.optional"
    assert f"? not-run 3 checks on host: {named}\n    interrupted\n" in shown
    assert shown.count("not-run 3 checks") == 2  # in two configurations
    assert "again:" not in shown


def test_a_notebook_shows_the_words_of_the_terminal() -> None:
    for kinds, message in (("pass unsupported pass", ""), ("fail error not-run", NASTY)):
        made = report(kinds, message)
        file = io.StringIO()
        print_report(made, Console(file=file, width=10_000, highlight=False))
        assert words_of(made._repr_html_()) == plain(file.getvalue()).split()
