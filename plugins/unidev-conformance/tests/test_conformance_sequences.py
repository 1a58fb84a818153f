"""The programs that the suite draws: all different, each time the same, run alone, and fail."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from mutants import MUTANTS

from unidev.backends.loading import load_backend
from unidev_conformance.checks.tensor.test_sequences import test_of_tensors as of_tensors
from unidev_conformance.kit.machines.running import run_machine
from unidev_conformance.kit.machines.tensors import TensorMachine
from unidev_conformance.kit.machines.training import TrainingMachine
from unidev_conformance.kit.workbench import Workbench

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from unidev_conformance.kit.machines.machine import Machine

OF_TENSORS: Mapping[str, str] = {
    "make_an_array": "an_array_seen_before_is_not_uploaded",
    "make_alike": "a_filled_tensor_is_copied_from_one_alike",
    "make_a_range": "ranges_are_made_once",
    "make_at_random": "a_spare_number_survives_the_seed",
    "make_like": "a_tensor_has_one_likeness",
    "make_of_a_tensor": "a_second_array_of_a_tensor_is_the_first",
    "view": "blocks_go_back_while_views_use_them",
    "copy": "a_second_copy_is_the_first",
    "move": "the_way_back_is_remembered",
    "copy_a_container": "containers_share_a_memo",
    "read_ahead": "batches_have_the_buffers_of_the_last_loop",
    "share": "copies_in_threads_set_the_default",
    "refuse": "failed_scope_stays",
    "write": "the_way_back_is_remembered",
    "write_the_last": "what_was_read_is_kept",
    "drop": "recycled_zeros_are_not_cleared",
    "enter": "only_two_scopes_count",
    "leave": "scopes_of_one_device_are_one",
    "look": "what_was_read_is_kept",
    "compare": "comparing_sets_the_default",
    "convert": "a_second_conversion_is_the_first",
    "wait": "waiting_again_copies_again",
    "finish": "coming_home_is_the_original",
}
OF_MODELS_AND_SHARDS: Mapping[str, str] = {
    "build": "biases_of_one_size_begin_as_one",
    "place": "coming_back_finds_the_old_weights",
    "wrap": "twins_bring_back_the_memory_of_the_start",
    "unwrap": "a_model_keeps_its_handle",
    "drop": "replicas_go_with_their_model",
    "step": "steps_have_momentum",
    "infer": "outputs_are_those_of_the_next_call",
    "refuse": "content_is_not_checked",
    "save": "what_was_read_for_a_file_is_kept",
    "load": "files_are_read_once",
    "replicate": "replicas_of_a_second_call_are_those_of_the_first",
    "make": "uploads_of_a_kind_share_a_buffer",
    "split": "a_batch_is_split_once",
    "reduce": "sums_have_one_buffer",
    "write": "a_broadcast_is_of_the_first_values",
    "write_the_last": "a_broadcast_is_of_the_first_values",
    "finish": "gathering_undoes_the_split",
}


@pytest.mark.parametrize(
    ("machine", "check", "shown_by"),
    [
        (TensorMachine, "sequences.of_tensors", OF_TENSORS),
        (TrainingMachine, "training_sequences.of_models_and_shards", OF_MODELS_AND_SHARDS),
    ],
)
def test_each_rule_is_shown_by_a_mutant(
    machine: type[Machine], check: str, shown_by: Mapping[str, str]
) -> None:
    assert {*machine.rules(), "finish"} == set(shown_by)
    assert {name for name in shown_by.values() if check not in MUTANTS[name].caught_by} == set()


@pytest.mark.parametrize("machine", [TensorMachine, TrainingMachine])
def test_programs_differ_and_are_the_same_each_time(machine: type[Machine]) -> None:
    texts, again = (
        [str(each) for each in run_machine(machine, _bench(), programs=6, lines=40)] for _ in "12"
    )
    assert texts == again
    assert len({*texts}) == 6


def test_each_function_is_reached() -> None:
    """``convert`` only where it is refused: NumPy converts to other frameworks."""
    bench = _bench()
    of_tensors(bench)
    found = bench.evidence.as_dict()
    assert found["programs"] == 110
    assert [name for name, count in found["calls"].items() if not count] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "lines"), [("what_was_read_is_kept", 10), ("only_two_scopes_count", 26)]
)
def test_the_program_of_a_failure_runs_alone(name: str, lines: int, tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "UNIDEV_PLUGINS": f"mutants:{name}",
        "UNIDEV_DISABLED_PLUGINS": "numpy",
        "UNIDEV_BACKEND": "",
    }
    report = tmp_path / "report.json"
    subprocess.run(
        [
            sys.executable, "-m", "unidev", "conform", MUTANTS[name].backend_name,
            "--simulate", "2", "--only", "sequences.of_tensors", "--report", str(report),
        ],
        env=environment, cwd=tmp_path, capture_output=True, timeout=300, check=False,
    )  # fmt: skip
    results = json.loads(report.read_text())["results"]
    message = next(each["message"] for each in results if each["result"] == "fail")
    first, _, program = message.partition("\n")
    assert first.startswith("the last line fails: ")
    settings = dict(re.findall(r"(\w+)=(\w+)", program.partition("\n")[0]))
    assert len(program.splitlines()) <= lines, program
    (tmp_path / "program.py").write_text(program)
    done = subprocess.run(
        [sys.executable, "program.py"],
        env={**environment, **settings},
        cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert f'program.py", line {len(program.splitlines())}, in <module>' in done.stderr
    assert done.stderr.endswith("AssertionError\n"), done.stderr


def _bench() -> Workbench:
    return Workbench(load_backend("numpy"))
