"""What the programs of ``tools/gpu_report.py`` leave is read, and a failure is one."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from hardware_report import facts, reading
from hardware_report.children import Ended
from hardware_report.document import FAIL, NOT_RUN, PASS
from hardware_report.reading import Left


@pytest.fixture
def left(tmp_path):
    def make(
        out: str = "", err: str = "", code: int = 0, gpus: int = 2, visible: str | None = None
    ) -> Left:
        return Left(Ended(code, f"exit code {code}", out, err, 1.0), tmp_path, gpus, visible)

    return make


def test_facts_need_a_gpu_that_answers(left) -> None:
    found = {"problems": [], "framework": "torch", "devices": ["gpu:0"]}
    outcome = reading.machine(left(json.dumps(found)))
    assert (outcome.verdict, outcome.facts["devices"]) == (PASS, ["gpu:0"])
    found["problems"] = ["GPU 1 does not answer its driver: lost"]
    assert reading.machine(left(json.dumps(found))).reason == found["problems"][0]
    found["devices"] = []
    outcome = reading.machine(left(json.dumps(found)))
    assert (outcome.verdict, outcome.reason) == (NOT_RUN, "needs 1 GPU of torch; there: none")
    assert reading.machine(left(err="no", code=1)).reason == "the facts: exit code 1: no"


def test_facts_keep_no_path_of_the_environment() -> None:
    given = {"CUDA_VISIBLE_DEVICES": "1", "CUDA_HOME": "/usr/local/cuda", "SECRET": "x"}
    assert facts.relevant(given) == {"CUDA_VISIBLE_DEVICES": "1", "CUDA_HOME": "(a path)"}


def test_facts_are_those_of_this_process(two_gpus) -> None:
    found = facts.facts("numpy")
    assert found["python"] == sys.version.split()[0]
    assert found["devices"][1].startswith("gpu:1 (")
    assert found["problems"] == []


def test_a_diagnosis_that_finds_a_cause_fails(left) -> None:
    found = json.dumps({"findings": [{"title": "This machine has no GPU."}]})
    assert reading.diagnosis(left(found)).verdict == PASS
    assert reading.diagnosis(left(found, code=1)).reason == "This machine has no GPU."
    assert reading.diagnosis(left("", "no", 2)).reason == "unidev doctor: exit code 2: no"


def conform(left: Any, *words: str, **given: Any) -> Any:
    folder = left().folder
    words = ("-m", "unidev", "conform", "numpy", "--simulate", "0", *words)
    done = subprocess.run(
        [sys.executable, *words, "--report", "report.json"],
        cwd=folder, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    return reading.conformance(left(done.stdout, done.stderr, done.returncode, **given))


@pytest.mark.slow
def test_the_suite_is_judged_by_its_own_verdict_and_devices(left) -> None:
    outcome = conform(left, "--only", "no.such_check")
    assert "wrote no report: exit code 2" in (outcome.reason or "")
    outcome = conform(left, "--only", "smoke", gpus=0, visible="")
    assert outcome.verdict == PASS
    assert any(each.startswith("host: cpu:0") for each in outcome.remarks)
    outcome = conform(left, "--only", "smoke", gpus=1, visible="0")
    assert outcome.reason == "1 GPU should be visible ('0'); judged: []"


def test_a_suite_without_a_verdict_fails_with_its_reason(left) -> None:
    outcome = conform(left, "--profile", "hardware", "--only", "cards")
    assert (outcome.verdict, outcome.reason) == (FAIL, "unidev conform: incomplete (and 1 more)")
    assert "the profile is about real GPUs, and the framework has none here" in outcome.remarks


def test_a_check_that_fails_is_in_the_table(left) -> None:
    result = {
        "check": "copy.zero_d", "devices": ["gpu:0"], "result": "fail", "required": True,
        "message": "it shares memory",
    }  # fmt: skip
    header = {"configurations": [], "suite_version": "1", "seconds": 1.0}
    footer = {
        "verdict": "does-not-conform", "reasons": ["copy.zero_d fails"], "counts": {"fail": 1},
        "counts_by_configuration": {},
    }  # fmt: skip
    report = {"header": header, "footer": footer, "results": [result]}
    (left().folder / "report.json").write_text(json.dumps(report))
    outcome = reading.conformance(left(code=1))
    assert outcome.reason == "unidev conform: does-not-conform (and 1 more)"
    assert outcome.remarks == ["copy.zero_d fails"]
    assert outcome.tables[0]["rows"] == [
        ["copy.zero_d", "gpu:0", "fail", "True", "it shares memory"]
    ]


def test_an_example_that_ends_well_passes_and_another_fails(left, monkeypatch, tmp_path) -> None:
    read = reading.example("use_gpu")
    expected = (reading.ROOT / "examples/use_gpu.expected").read_text()
    assert read(left(expected)).verdict == PASS
    assert read(left("hello", gpus=1)).verdict == PASS
    assert read(left("hello")).reason == "use_gpu.py printed something else than use_gpu.expected"
    said = read(left("hello", code=3, gpus=1)).reason
    assert said == "use_gpu.py: exit code 3: hello"


def test_a_benchmark_gives_its_table(left) -> None:
    printed = "today\n| backend | ratio |\n|---|---|\n| torch | 1.2 |\n| torch | 1.3 |\n"
    (table,) = reading.benchmark(left(printed)).tables
    assert table["columns"] == ["backend", "ratio"]
    assert table["rows"] == [["torch", "1.2"], ["torch", "1.3"]]
    assert reading.benchmark(left("", "no", 1)).reason == "exit code 1: no"
    assert "no table" in (reading.benchmark(left("nothing")).reason or "")


def test_bench_must_have_measured_a_gpu(left) -> None:
    result = {"subject": "sum", "what": "x + y", "variant": "here", "size": 8, "reason": None}
    timing = {"median_s": 1e-6, "timings": 30}
    found = {
        "findings": ["gpu:0 is faster."], "date": "today", "seconds": 1.0, "is_full": False,
        "load": None, "crossovers": [],
        "results": [{**result, "device": "gpu:0", "summary": timing}],
    }  # fmt: skip
    outcome = reading.bench(left(json.dumps(found)))
    assert (outcome.verdict, outcome.remarks[0]) == (PASS, "gpu:0 is faster.")
    found["results"][0].update(summary=None, reason="out of time")
    assert reading.bench(left(json.dumps(found))).reason == "bench measured nothing on a GPU"


def test_a_trace_must_have_transfers(left) -> None:
    file = left().folder / "report.json"
    assert reading.trace(left(err="no", code=1)).reason == "unidev trace: exit code 1: no"
    file.write_text(json.dumps({"transfers": []}))
    assert reading.trace(left()).reason == "the trace has no transfers"
    file.write_text(json.dumps({"transfers": [{}]}))
    assert reading.trace(left()).verdict == PASS
