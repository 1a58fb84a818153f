"""The steps of ``tools/gpu_report.py`` can fail: on simulated devices, with one thing broken.

What needs PyTorch is tried in its own environment, and on the stand-in for CUDA.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hardware_report import children, witness
from hardware_report.children import Ended
from hardware_report.outcome import FAIL, PASS, NotRunError
from hardware_report.setting import Setting, need
from hardware_report.steps import (
    bench,
    conform,
    contexts,
    device_assert,
    facts,
    programs,
    trace,
)
from hardware_report.witness import Seen
from report_text import text


def ended(out: str = "", err: str = "", code: int | None = 0, how: str = "exit code 0") -> Ended:
    return Ended(code, how, out, err, 1.0)


# -- the setting -----------------------------------------------------------------------------------


def test_a_step_that_needs_more_gpus_or_real_ones_does_not_run(setting) -> None:
    assert [str(each) for each in setting.gpus(2)] == ["gpu:0", "gpu:1"]
    with pytest.raises(NotRunError, match="needs 8 GPUs of numpy; there: gpu:0, gpu:1"):
        setting.gpus(8)
    with pytest.raises(NotRunError, match="simulated devices cannot show it"):
        setting.real_gpus()
    with pytest.raises(NotRunError, match="written for torch only"):
        setting.only("torch")


def test_a_step_whose_modules_are_missing_names_their_distributions(monkeypatch) -> None:
    need("json", "sys")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(NotRunError, match="needs scikit-learn click, which"):
        need("sklearn", "click")


# -- contexts --------------------------------------------------------------------------------------


@pytest.fixture
def seen(setting, monkeypatch):
    """Judges processes in which each call leaves a context on its own GPU, unless changed."""
    monkeypatch.setattr(Setting, "real_gpus", Setting.gpus)

    def judge(**changed: Seen) -> Any:
        def after(_: Setting, call: str) -> Seen:
            found = next((answer for part, answer in changed.items() if part in call), None)
            makes_one = "device='gpu" in call or "zeros(4), 'gpu" in call
            own = [int(call.split("gpu:")[1][0])] if makes_one else []
            return found or Seen(own, own, own, None)

        monkeypatch.setattr(contexts, "after", after)
        return contexts.of_calls(setting)

    return judge


def test_calls_that_leave_contexts_where_they_should_pass(seen) -> None:
    outcome = seen()
    assert outcome.verdict == PASS, text(outcome)
    assert len(outcome.tables[0]["rows"]) > 12


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"list_devices": Seen([0], [0], [0], None)}, "left contexts on [0], expected []"),
        ({"num_gpus": Seen(None, [1], [1], None)}, "left contexts on [1], expected []"),
        ({"copy_to": Seen([0, 1], None, None, None)}, "left contexts on [0, 1]"),
        (
            {"track_memory": Seen([1], None, None, "raw RuntimeError: no")},
            "raised raw RuntimeError",
        ),
    ],
)
def test_a_context_too_many_fails(seen, changed, said) -> None:
    assert said in text(seen(**changed))


def test_without_a_witness_contexts_are_not_judged(seen) -> None:
    with pytest.raises(NotRunError, match="neither the driver nor the framework"):
        seen(zeros=Seen(None, [], [], None))


def test_a_process_is_looked_at_while_it_lives(setting, monkeypatch) -> None:
    found = witness.after(setting, "x = unidev.zeros(3); raise unidev.DeviceError('made up')")
    assert found == Seen(None, None, None, "DeviceError: made up")
    with pytest.raises(RuntimeError, match=r"ended its process: (.|\n)*KeyError"):
        witness.after(setting, "raise KeyError('made up')")


# -- programs, bench, conform, an assertion on the device ------------------------------------------


def test_an_example_that_ends_well_passes_and_another_fails(setting, monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("UNIDEV_BACKEND", "numpy")
    monkeypatch.setenv("UNIDEV_SIMULATE", "2")
    assert programs.example(setting, "use_gpu").verdict == PASS
    (tmp_path / "examples").mkdir()
    monkeypatch.setattr(programs, "ROOT", tmp_path)
    file = tmp_path / "examples/use_gpu.py"
    file.write_text("print('hello'); raise SystemExit(3)")
    assert "use_gpu.py: exit code 3: hello" in text(programs.example(setting, "use_gpu"))
    file.write_text("print('hello')")
    assert programs.example(setting, "use_gpu").verdict == PASS
    file.with_suffix(".expected").write_text("goodbye\n")
    assert "printed something else" in text(programs.example(setting, "use_gpu"))


def test_a_benchmark_gives_its_table(setting, monkeypatch) -> None:
    printed = "today\n| backend | ratio |\n|---|---|\n| torch | 1.2 |\n| torch | 1.3 |\n"
    monkeypatch.setattr(children, "run", lambda *_, **__: ended(printed))
    (table,) = programs.benchmark(setting, "copies").tables
    assert table["columns"] == ["backend", "ratio"]
    assert table["rows"] == [["torch", "1.2"], ["torch", "1.3"]]
    monkeypatch.setattr(children, "run", lambda *_, **__: ended("", "no", 1, "exit code 1"))
    assert "copies.py: exit code 1: no" in text(programs.benchmark(setting, "copies"))


def test_bench_must_have_measured_a_gpu(setting, monkeypatch) -> None:
    monkeypatch.setattr(Setting, "real_gpus", Setting.gpus)
    result = {"subject": "sum", "what": "x + y", "variant": "here", "size": 8, "reason": None}
    timing = {"median_s": 1e-6, "timings": 30}
    document = {
        "findings": ["gpu:0 is faster."], "date": "today", "seconds": 1.0, "is_full": False,
        "load": None, "crossovers": [],
        "results": [{**result, "device": "gpu:0", "summary": timing}],
    }  # fmt: skip
    monkeypatch.setattr(children, "run", lambda *_, **__: ended(json.dumps(document)))
    outcome = bench.table(setting)
    assert (outcome.verdict, outcome.remarks[0]) == (PASS, "gpu:0 is faster.")
    document["results"][0].update(summary=None, reason="out of time")
    assert "measured nothing on a GPU" in text(bench.table(setting))


def test_the_suite_is_judged_by_its_own_verdict_and_devices(setting, monkeypatch) -> None:
    monkeypatch.setenv("UNIDEV_SIMULATE", "0")
    outcome = conform._conform(setting, "tensor", simulated=0, only="smoke", visible=("", 0))
    assert outcome.verdict == PASS, text(outcome)
    assert any(each.startswith("host: cpu:0") for each in outcome.remarks)
    outcome = conform._conform(setting, "tensor", simulated=0, only="smoke", visible=("0", 1))
    assert outcome.reason == "1 GPU should be visible; judged: []"
    outcome = conform._conform(setting, "tensor", simulated=0, only="no.such_check")
    assert "wrote no report: exit code 2" in text(outcome)


@pytest.mark.parametrize(
    ("how", "visible"), [("empty", ("", 0)), ("index", ("1", 1)), ("reordered", ("1,0", 2))]
)
def test_variables_arrange_the_gpus(setting, monkeypatch, how, visible) -> None:
    monkeypatch.setattr(Setting, "real_gpus", Setting.gpus)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert conform._visible(setting, how) == visible
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    with pytest.raises(NotRunError, match="is set already"):
        conform._visible(setting, how)


def test_a_failure_on_the_device_must_be_reported_by_calls_that_wait(setting, monkeypatch) -> None:
    answers = {
        "unidev.synchronize('gpu:0')": ["FrameworkError", True, "device-side assert triggered"],
        "unidev.synchronize()": None,
        "unidev.to_numpy(y)": ["RuntimeError", False, "raw"],
    }

    def run(words: list[str], *_: object) -> Ended:
        call = next(each for each in answers if each in words[-1])
        return ended(json.dumps({"said": answers[call]}) + "\n")

    monkeypatch.setattr(Setting, "real_gpus", Setting.gpus)
    monkeypatch.setattr(Setting, "only", lambda *_: None)
    monkeypatch.setattr(children, "run", run)
    said = text(device_assert.reported(setting))
    assert "`unidev.synchronize()` did not report the failure" in said
    assert "`unidev.to_numpy(y)` raised RuntimeError: raw" in said
    assert "gpu:0')` did not" not in said


def test_facts_keep_no_path_of_the_environment() -> None:
    given = {"CUDA_VISIBLE_DEVICES": "1", "CUDA_HOME": "/usr/local/cuda", "SECRET": "x"}
    assert facts.relevant(given) == {"CUDA_VISIBLE_DEVICES": "1", "CUDA_HOME": "(a path)"}


def test_facts_are_those_of_this_process(setting) -> None:
    outcome = facts.machine(setting)
    assert outcome.verdict == PASS
    assert outcome.facts["python"] == sys.version.split()[0]
    assert outcome.facts["devices"][1].startswith("gpu:1 (")
    assert Path(sys.prefix).name


# -- traces against the profiler -------------------------------------------------------------------


def memcpy(name: str, size: int) -> dict[str, Any]:
    return {"cat": "gpu_memcpy", "name": f"Memcpy {name}", "args": {"bytes": size, "stream": 7}}


def test_records_of_the_profiler_are_counted_by_direction() -> None:
    events = [
        memcpy("HtoD (Pageable -> Device)", 4), memcpy("DtoH (Device -> Pageable)", 16),
        memcpy("HtoD (Pinned -> Device)", 8), memcpy("DtoD (Device -> Device)", 32),
    ]  # fmt: skip
    assert trace.of_records(events) == trace.Counted(2, 12, 1, 16)


@pytest.mark.parametrize(
    ("more", "verdict"),
    [
        ([], PASS),
        ([memcpy("HtoD (Pageable -> Device)", 4)], FAIL),
        ([memcpy("DtoD (Device -> Device)", 4)], PASS),
    ],
)
def test_a_copy_that_the_trace_does_not_have_fails(setting, monkeypatch, more, verdict) -> None:
    monkeypatch.setattr(Setting, "real_gpus", Setting.gpus)
    monkeypatch.setattr(Setting, "only", lambda *_: None)
    work = {"copy_to there and back": trace._WORK["copy_to there and back"]}
    monkeypatch.setattr(trace, "_WORK", work)
    own = [memcpy("HtoD (Pageable -> Device)", 16384), memcpy("DtoH (Device -> Pageable)", 16384)]
    monkeypatch.setattr(trace, "records", lambda *_: own + more)
    outcome = trace.against_profiler(setting)
    assert outcome.verdict == verdict, text(outcome)
    assert outcome.tables[0]["rows"][0][1:5] == ["1", "16384", "1", "16384"]


def test_without_records_a_trace_is_not_judged(setting, monkeypatch) -> None:
    monkeypatch.setattr(Setting, "real_gpus", Setting.gpus)
    monkeypatch.setattr(Setting, "only", lambda *_: None)
    monkeypatch.setattr(trace, "records", lambda *_: [])
    with pytest.raises(NotRunError, match="CUPTI does not answer"):
        trace.against_profiler(setting)
