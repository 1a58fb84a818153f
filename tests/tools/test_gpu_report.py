"""``tools/gpu_report.py``: limits, verdicts and resuming, with steps made up; and its plan."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gpu_report
import gpu_steps
import pytest
from gpu_steps import ROOT, STEPS, ReportError, Step, planned, read_list
from marked_processes import all_gone

from unidev.system.child_processes import Interruption

if TYPE_CHECKING:
    from collections.abc import Callable

HANGS = "import subprocess, time; subprocess.Popen(['sleep', '600']); time.sleep(600)"
MACHINE = {"devices": ["gpu:0", "gpu:1"], "uuids": ["GPU-1"]}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """Runs steps whose programs are given, and returns the report; the folder has earlier ones."""
    monkeypatch.setattr(gpu_report.Runner, "_machine", lambda self: MACHINE)

    def of(*, seconds: float = 300.0, stop: Any = None, **programs: str | Step) -> dict[str, Any]:
        steps = {
            name: given if isinstance(given, Step) else Step(name, ("-c", given))
            for name, given in programs.items()
        }
        monkeypatch.setattr(gpu_report, "STEPS", steps)
        monkeypatch.setattr(gpu_report, "planned", lambda *, is_short: [*steps])
        report = gpu_report.resumed(new(), tmp_path)
        stop, end = stop or Interruption(), time.monotonic() + seconds
        said: list[str] = []
        runner = gpu_report.Runner(report, tmp_path, {"left": "no"}, end, stop, said.append)
        runner.run([name for name in steps if name not in report["results"]])
        return report

    return of


def new(**options: Any) -> dict[str, Any]:
    given = {"backend": "numpy", "short": True, "simulate": 0, "stand_in": None, "commit": None}
    return gpu_report.new_report(Namespace(**{**given, **options}))


def verdicts(report: dict[str, Any]) -> dict[str, tuple[str, str | None]]:
    return {name: (x["verdict"], x["reason"]) for name, x in report["results"].items()}


def test_each_step_has_a_verdict_and_both_files_are_written(run: Any, tmp_path: Path) -> None:
    report = run(
        a="print('fine')", b="raise ValueError('no | good')", c="import os; os.abort()",
        left="", d=Step("d", ("-c", ""), least=3), e=Step("e", (), needs=("no_such_module",)),
    )  # fmt: skip
    assert verdicts(report) == {
        "a": ("pass", None),
        "b": ("fail", "exit code 1: ValueError: no | good"),
        "c": ("fail", verdicts(report)["c"][1]),
        "left": ("not run", "no"),
        "d": ("not run", "needs 3 GPUs of numpy; there: gpu:0, gpu:1"),
        "e": ("not run", f"needs no_such_module, which {Path(sys.executable).name} does not have"),
    }
    assert (verdicts(report)["c"][1] or "").startswith("killed by SIGABRT: ")
    assert report["verdict"] == "fail"
    assert json.loads((tmp_path / "gpu-report.json").read_text()) == report
    text = (tmp_path / "gpu-report.md").read_text()
    assert "| b | fail | 0 | exit code 1: ValueError: no \\| good |" in text
    assert "Fatal Python error: Aborted" in text
    assert "1 pass, 2 fail, 3 not run." in text
    assert (tmp_path / "a.txt").read_text() == "fine\n\n"


def test_a_step_that_hangs_is_ended_with_all_that_it_started(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUN_MARK", "a_step_that_hangs")
    report = run(a=Step("a", ("-c", HANGS), limit_s=2.0), b="")
    assert verdicts(report)["a"][1].startswith("no result in time: ")
    assert verdicts(report)["b"] == ("pass", None)
    monkeypatch.delenv("RUN_MARK")
    assert all_gone("a_step_that_hangs")


def test_a_run_that_ends_early_continues_with_what_is_left(run: Any) -> None:
    report = run(a="", b=HANGS, c="", seconds=4.0)
    assert [*report["results"]] == ["a"]  # b was cut short by the limit of the whole
    assert report["verdict"] == "incomplete"
    report = run(a="raise ValueError", b="", c="")
    assert [x for x, _ in verdicts(report).values()] == ["pass"] * 3
    assert report["verdict"] == "pass"


@pytest.mark.parametrize("name", ["backend", "commit", "short", "stand_in", "planned"])
def test_the_report_of_something_else_is_not_continued(run: Any, name: str, tmp_path: Path) -> None:
    run(a="")
    other = {**new(), name: "other"}
    with pytest.raises(ReportError, match=f"was begun with other {name}: name an empty"):
        gpu_report.resumed(other, tmp_path)
    (tmp_path / "gpu-report.json").write_text("{}")
    with pytest.raises(ReportError, match="is not a report"):
        gpu_report.resumed(new(), tmp_path)


def test_what_a_program_leaves_is_looked_at_though_it_ends_well(tmp_path: Path) -> None:
    def wrong(name: str, out: str, gpus: int = 2, shown: Any = None) -> str | None:
        return gpu_report.wrong(Step(name, ()), out, gpus, shown, tmp_path)

    expected = (ROOT / "examples/use_gpu.expected").read_text()
    assert wrong("examples.use_gpu", expected) is None
    assert wrong("examples.use_gpu", "hello", 1) is None
    said = "use_gpu.py printed something else than use_gpu.expected"
    assert wrong("examples.use_gpu", "hello") == said
    assert wrong("benchmarks.memcpy", "| a | b |\n|---|---|\n| 1 | 2 |\n") is None
    assert wrong("benchmarks.memcpy", "nothing") == "it printed no table"
    devices = [{"device": "cpu:0"}, {"device": "gpu:0"}]
    report = {"header": {"configurations": [{"devices": devices}]}}
    (tmp_path / "conform.x.json").write_text(json.dumps(report))
    assert wrong("conform.x", "", shown=("1", 1)) is None
    said = "0 GPUs should be visible (''); judged: ['gpu:0']"
    assert wrong("conform.x", "", shown=("", 0)) == said


def test_output_names_no_place_of_this_machine() -> None:
    text = f"{ROOT / 'unidev/x.py'} {Path.home() / 'x'}"
    assert gpu_report.without_paths(text) == "unidev/unidev/x.py home/x"


def test_every_example_and_every_benchmark_of_devices_is_a_step() -> None:
    files = {word for step in STEPS.values() for word in step.words if word.endswith(".py")}
    assert all(Path(file).is_file() for file in files)
    examples = {file.stem for file in (ROOT / "examples").glob("*.py")}
    assert {f"examples.{name}" for name in examples} <= STEPS.keys()
    assert {*planned(is_short=True)} < {*planned(is_short=False)} == STEPS.keys()


def test_steps_that_a_stand_in_cannot_run_are_read_with_their_reasons(tmp_path: Path) -> None:
    file = tmp_path / "steps"
    file.write_text("# why\ndoctor.healthy: needs kernels  # all\n\n")
    assert read_list(file) == {"doctor.healthy": "needs kernels"}
    for text in ("doctor.healthy", "doctor.healthy:", "doctor.mars: needs a rocket"):
        file.write_text(f"# one\n{text}\n")
        with pytest.raises(ReportError, match="line 2: not a step and a reason"):
            read_list(file)


def test_the_command_runs_where_unidev_is_not_installed(tmp_path: Path) -> None:
    def command(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, str(ROOT / "tools/gpu_report.py"), *words],
            cwd=tmp_path, env={**os.environ, "PYTHONPATH": ""}, capture_output=True, text=True,
        )  # fmt: skip

    words = ("out", "--backend", "numpy", "--short", "--only")
    done = command(*words, "examples.use_gpu", "--simulate", "2")
    assert done.returncode == 3, done.stderr
    assert done.stderr.splitlines()[-1].startswith("incomplete: 1 pass, 25 left; ")
    assert "it shows nothing about any" in (tmp_path / "out/gpu-report.md").read_text()
    assert "begun with other simulated" in command(*words, "doctor").stderr
    assert "no step is called mars" in command("other", "--only", "mars").stderr
    assert command().returncode == 2
    assert command("--list").stdout.split() >= [*gpu_steps.STEPS][:1]
