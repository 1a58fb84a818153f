"""A report of the suite: its verdict, and its JSON."""

from __future__ import annotations

import dataclasses
import json

import pytest
from made_reports import NASTY, report

from unidev_conformance.judging.report import RESULTS, Report
from unidev_conformance.judging.verdict import judge
from unidev_conformance.reports.as_json import to_json


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


def test_without_a_real_gpu_the_profile_about_them_has_no_verdict() -> None:
    assert verdict("pass not-applicable unsupported") == "conforms"
    found = judge(report("pass not-applicable unsupported", profile="hardware"))
    assert (found.name, found.reasons) == (
        "incomplete", ("the profile is about real GPUs, and the framework has none here",),
    )  # fmt: skip
    host = report().header.configurations[0]
    card = dataclasses.replace(host.devices[0], device="gpu:0")
    here = (dataclasses.replace(host, devices=(*host.devices, card)),)
    some = dataclasses.replace(report().header, profile="hardware", configurations=here)
    made = report()
    results = tuple(each for each in made.results if each.configuration == "host")
    assert judge(Report(header=some, results=results)).name == "conforms"


def test_what_no_configuration_could_check_is_named() -> None:
    limits = judge(report("pass not-applicable pass")).limits
    assert "applicable in no configuration that was run: copy.gradient" in limits[0]


@pytest.mark.parametrize("kind", RESULTS)
def test_the_footer_has_the_verdict_and_its_grounds(kind) -> None:
    made = report(f"pass {kind} pass", NASTY)
    document = json.loads(to_json(made).encode())
    assert document["results"][1]["result"] == kind
    assert document["footer"]["verdict"] == judge(made).name
    assert document["footer"]["reasons"] == list(judge(made).reasons)
    assert sum(document["footer"]["counts"].values()) == len(document["results"]) == 6
