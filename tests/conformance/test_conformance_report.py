"""A report of the suite: its verdict, and that one which was edited is refused."""

from __future__ import annotations

import dataclasses
import json

import pytest
from made_reports import CHECKS, NASTY, report

from unidev.conformance.judging import verify as verify_module
from unidev.conformance.judging.verdict import judge
from unidev.conformance.judging.verify import verify
from unidev.conformance.reports.report import (
    RESULTS,
    Report,
    ReportError,
    expected_footer,
    from_document,
    to_document,
    to_json,
)


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


@pytest.mark.parametrize("kind", RESULTS)
def test_a_report_of_every_result_comes_back_as_it_was_written(kind) -> None:
    text = to_json(report(f"pass {kind} pass", "why"))
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
