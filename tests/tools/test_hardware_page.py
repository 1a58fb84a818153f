"""``docs/hardware.md`` says what the committed reports say."""

from __future__ import annotations

import json

import pytest
from hardware_report import document, hardware_page
from hardware_report.document import FAIL, NOT_RUN, PASS
from test_gpu_report_frame import MACHINE


def report(**changes):
    made = document.new_report(
        "torch", ["facts.machine", "copies.to_gpu", "copies.to_host", "bench.table"],
        is_short=False, is_stand_in=False, commit="1" * 40,
    )  # fmt: skip
    made["machines"] = {"GPU-1; driver 580.159; torch 2.11.0": MACHINE}
    made["commit"], made["dirty"] = "1" * 40, False
    for step, verdict in zip(made["planned"], (PASS, PASS, FAIL, NOT_RUN), strict=True):
        reason = None if verdict == PASS else "a | reason"
        document.record(made, {
            "step": step, "title": f"About {step}", "seconds": 1.0, "machine": None, "output": None,
            "verdict": verdict, "reason": reason, "remarks": [], "tables": [], "facts": {},
        })  # fmt: skip
    return {**made, **changes}


def test_the_page_is_what_the_committed_reports_say() -> None:
    assert hardware_page.PAGE.read_text(encoding="utf-8") == hardware_page.page(), (
        "run: python tools/gpu_report.py --page"
    )


def test_each_committed_report_is_there_as_markdown_too() -> None:
    for file in hardware_page.REPORTS.glob("*.json"):
        text = hardware_page.to_markdown(document.read(file))
        assert file.with_suffix(".md").read_text(encoding="utf-8") == text


def test_without_reports_the_page_says_that_nothing_was_seen(tmp_path) -> None:
    assert "Nothing: no report of a real GPU" in hardware_page.page(tmp_path)


def test_a_report_is_a_row_and_its_subjects_are_counted(tmp_path) -> None:
    document.write(report(), tmp_path)
    (tmp_path / document.JSON_NAME).rename(tmp_path / "torch-h200.json")
    page = hardware_page.page(tmp_path)
    assert (
        "| [torch-h200](hardware/torch-h200.md) | torch | GPU-1; driver 580.159; torch 2.11.0 | "
        "1111111111 | 2 pass, 1 fail, 1 not run |"
    ) in page
    assert "| copies | 1 of 2 |" in page
    assert "| bench | not run |" in page
    assert "Nothing:" not in page


def test_reports_of_a_stand_in_are_no_hardware(tmp_path) -> None:
    document.write(report(stand_in=True), tmp_path)
    with pytest.raises(document.ReportError, match="shows nothing about any"):
        hardware_page.page(tmp_path)


def test_a_bar_in_a_reason_does_not_end_its_cell() -> None:
    text = hardware_page.to_markdown(report())
    assert "| copies.to_host | **FAIL** | 1 | a \\| reason |" in text
    assert json.dumps(report())
