"""``tools/gpu_report.py``: the plan of its steps, and the choice among them."""

from __future__ import annotations

from pathlib import Path

import gpu_report
import pytest
from hardware_report import document
from hardware_report.document import ROOT
from hardware_report.plan import STEPS, VISIBLE, read_list, steps_of, visible


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_a_step_runs_a_program_that_there_is(step) -> None:
    words = step.command("torch", is_short=True)
    assert step.title
    assert words[3] == "-m" or Path(words[3]).is_file()
    assert not [word for word in words if "{" in word]


def test_variables_arrange_the_gpus() -> None:
    machine = {"devices": ["gpu:0", "gpu:1"], "gpus": [{"uuid": "GPU-1", "mig_uuids": []}]}
    shown = {how: visible(how, machine) for how in VISIBLE}
    assert shown == {
        "empty": ("", 0), "index": ("1", 1), "reordered": ("1,0", 2), "uuid": ("GPU-1", 1),
    }  # fmt: skip
    assert visible("uuid", {**machine, "gpus": []}) is None


def test_no_two_steps_have_one_name() -> None:
    names = [step.name for step in STEPS]
    assert len(set(names)) == len(names) > 30
    short = [step.name for step in steps_of(is_short=True)]
    assert [step.name for step in steps_of(is_short=False)] == names
    assert set(short) < set(names)


def test_every_example_and_every_benchmark_of_devices_is_a_step() -> None:
    names = {step.name for step in STEPS}
    examples = {f"examples.{file.stem}" for file in (ROOT / "examples").glob("*.py")}
    assert len(examples) > 8
    parts = {"examples.own_loaders", "examples.questions"}  # of programs
    assert examples - parts <= names
    programs = {
        f"benchmarks.{file.stem}" for file in (ROOT / "benchmarks").glob("*.py")
        if "__main__" in file.read_text()
    }  # fmt: skip
    others = {"benchmarks.long_trace", "benchmarks.growth"}  # of NumPy alone
    others |= {"benchmarks.distributed", "benchmarks.slow_link"}  # of processes
    others |= {"benchmarks.simulated"}  # of simulated devices
    assert programs - others <= names


def test_steps_that_a_stand_in_cannot_run_are_read_with_their_reasons(tmp_path) -> None:
    file = tmp_path / "steps"
    file.write_text("# why\ndoctor.healthy: needs kernels  # all\n\nbench.table: needs kernels\n")
    assert read_list(file, ["doctor.healthy"]) == {"doctor.healthy": "needs kernels"}
    for text in ("doctor.healthy", "doctor.healthy:", "doctor.mars: needs a rocket"):
        file.write_text(f"# one\n{text}\n")
        with pytest.raises(document.ReportError, match="line 2: not a step and a reason"):
            read_list(file, [])


def test_steps_are_chosen_by_name_or_subject() -> None:
    planned = ["copies.to_gpu", "copies.to_host", "copies_of.x", "memory.peak"]
    assert gpu_report.chosen([], planned) == set(planned)
    assert gpu_report.chosen(["copies"], planned) == {"copies.to_gpu", "copies.to_host"}
    assert gpu_report.chosen(["memory.peak"], planned) == {"memory.peak"}
    with pytest.raises(document.ReportError, match="no step is called bench"):
        gpu_report.chosen(["bench"], planned)
