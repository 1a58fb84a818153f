"""What the environment hides, read as CUDA, ROCm and Level Zero read it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from doctor_cases import (
    AMD,
    EMPTY,
    FOR_ROCM,
    INTEL,
    UNDRIVEN,
    WORKING,
    A,
    B,
    case,
    causes,
    divided,
    everything,
    found,
    gpu,
    torch,
    with_environment,
    with_gpus,
)

from unidev.doctor.diagnosis import diagnose, is_healthy
from unidev.system.facts import Driver, Gpu, Process
from unidev.system.visible import EMPTY as HIDES_ALL
from unidev.system.visible import OUT_OF_RANGE, REPEATED, SUBSET, UNKNOWN, hidden

TWO = (gpu(0), gpu(1))


@pytest.mark.parametrize(
    ("value", "how", "shown"),
    [
        ("", HIDES_ALL, 0),
        (" ", HIDES_ALL, 0),
        ("-1", HIDES_ALL, 0),
        ("0,-1,1", HIDES_ALL, 1),
        ("2", OUT_OF_RANGE, 0),
        ("0,7", OUT_OF_RANGE, 1),
        ("7,0,1", OUT_OF_RANGE, 0),
        ("GPU-cccccccc", UNKNOWN, 0),
        ("none", UNKNOWN, 0),
        ("NoDevFiles", UNKNOWN, 0),
        ("gpu-aaaaaaaa", UNKNOWN, 0),
        ("GPU-AAAAAAAA", UNKNOWN, 0),
        ("0", SUBSET, 1),
        ("1,1", REPEATED, 0),
        ("0,1,0", REPEATED, 0),
        ("0,7,0", REPEATED, 0),
        (f"{A},{A}", REPEATED, 0),
        (f"{A},GPU-aaaa", REPEATED, 0),
        ("GPU-", UNKNOWN, 0),
        ("1gpu", SUBSET, 1),
        (A, SUBSET, 1),
        ("MIG-12", UNKNOWN, 0),
    ],
)
def test_a_value_that_hides_gpus_is_understood_as_cuda_does(value, how, shown) -> None:
    hiding = hidden({"CUDA_VISIBLE_DEVICES": value}, "cuda", TWO)
    assert hiding is not None
    assert (hiding.how, hiding.shown) == (how, shown)


@pytest.mark.parametrize("value", ["0,1", "1,0", " 0 , 1 ", f"{A},{B}", "GPU-aaaaaaaa,GPU-b"])
def test_a_value_that_shows_all_hides_none(value) -> None:
    assert hidden({"CUDA_VISIBLE_DEVICES": value}, "cuda", TWO) is None


def test_a_part_of_a_gpu_is_known_by_its_own_uuid() -> None:
    parted = (divided("MIG-1234-5678"),)
    assert hidden({"CUDA_VISIBLE_DEVICES": "MIG-1234-5678"}, "cuda", parted) is None
    assert hidden({"CUDA_VISIBLE_DEVICES": "MIG-9"}, "cuda", parted) is not None


@pytest.mark.parametrize(
    ("value", "is_hidden"), [("", True), ("-1", True), ("5", False), (A, False)]
)
def test_where_nobody_knows_the_gpus_only_what_hides_all_is_told(value, is_hidden) -> None:
    assert (hidden({"CUDA_VISIBLE_DEVICES": value}, "cuda", None) is not None) == is_hidden


@pytest.mark.parametrize(
    ("variables", "variable"),
    [
        ({"HIP_VISIBLE_DEVICES": "-1"}, "HIP_VISIBLE_DEVICES"),
        ({"ROCR_VISIBLE_DEVICES": "3"}, "ROCR_VISIBLE_DEVICES"),
        ({"ROCR_VISIBLE_DEVICES": "GPU-00000000000000aa", "CUDA_VISIBLE_DEVICES": ""},
         "CUDA_VISIBLE_DEVICES"),
        ({"ROCR_VISIBLE_DEVICES": "GPU-00000000000000bb"}, "ROCR_VISIBLE_DEVICES"),
    ],
)  # fmt: skip
def test_rocms_variables_are_all_looked_at(variables, variable) -> None:
    first, *_ = found(with_environment(AMD, **variables), torch(0, FOR_ROCM))
    assert first.cause == "visible-devices"
    assert variable in first.title


@pytest.mark.parametrize(
    ("variable", "value", "is_hidden"),
    [
        ("ONEAPI_DEVICE_SELECTOR", "opencl:cpu", True),
        ("ONEAPI_DEVICE_SELECTOR", "*:cpu", True),
        ("ONEAPI_DEVICE_SELECTOR", "!level_zero:*", True),
        ("ONEAPI_DEVICE_SELECTOR", "cuda:*", True),
        ("ONEAPI_DEVICE_SELECTOR", "level_zero:0", False),
        ("ONEAPI_DEVICE_SELECTOR", "level_zero:gpu;opencl:cpu", False),
        ("ONEAPI_DEVICE_SELECTOR", "*:gpu", False),
        ("ONEAPI_DEVICE_SELECTOR", "!opencl:*", False),
        ("ONEAPI_DEVICE_SELECTOR", "", False),
        ("ZE_AFFINITY_MASK", "1", True),
        ("ZE_AFFINITY_MASK", "0.1", False),
        ("ZE_AFFINITY_MASK", "", False),
    ],
)
def test_intels_variables_are_read_as_one_api_reads_them(variable, value, is_hidden) -> None:
    gpus = INTEL.driver("xpu").gpus
    assert (hidden({variable: value}, "xpu", gpus) is not None) == is_hidden


ALL_AGAIN = "export CUDA_VISIBLE_DEVICES=0,1"


@pytest.mark.parametrize(
    ("value", "title", "said"),
    [
        ("", "hides every GPU.", "unset CUDA_VISIBLE_DEVICES"),
        ("-1", "hides every GPU.", "unset CUDA_VISIBLE_DEVICES"),
        ("0,2,1", "names GPU 2, but the highest index is 1; entries after '2' are ignored.",
         ALL_AGAIN),
        ("2", "names GPU 2, but the highest index is 1.", f"GPU 1: NVIDIA H200, {B}"),
        ("GPU-dddd", "names 'GPU-dddd', which is not a GPU of this machine.", ALL_AGAIN),
        ("0,0", "names GPU 0 twice, which hides every GPU.", ALL_AGAIN),
    ],
)  # fmt: skip
def test_a_variable_that_hides_gpus_comes_first(value, title, said) -> None:
    (first,) = found(with_environment(WORKING, CUDA_VISIBLE_DEVICES=value), torch(0))
    assert (first.cause, first.is_blocking) == ("visible-devices", True)
    assert first.title == f"CUDA_VISIBLE_DEVICES {title}"
    assert said in everything(first)


def test_a_scheduler_that_chooses_some_of_the_gpus_is_followed() -> None:
    machine = with_environment(WORKING, CUDA_VISIBLE_DEVICES="1")
    (note,) = found(machine, torch(1))
    assert (note.cause, note.is_blocking) == ("visible-devices", False)
    assert note.title == "CUDA_VISIBLE_DEVICES shows 1 of 2 GPUs."
    assert is_healthy(case(machine, torch(1)), [note])
    none = found(machine, torch(0))
    assert [each.cause for each in none] == ["unexplained", "visible-devices"]
    assert "sees 0 of 1 GPUs" in none[0].title
    assert not is_healthy(case(machine, torch(0)), none)


@pytest.mark.parametrize("value", ["3", "GPU-dddd"])
def test_an_index_of_the_host_is_healthy_where_the_framework_sees_its_gpu(value) -> None:
    """In a container with one of eight GPUs, the driver lists one, and calls it 0."""
    machine = with_environment(with_gpus(gpu(0)), CUDA_VISIBLE_DEVICES=value)
    assert found(machine, torch(1)) == []
    assert is_healthy(case(machine, torch(1)), [])
    assert causes(machine, torch(0)) == ["visible-devices"]


FOUR = tuple(
    Gpu("rocm", index, "gfx942", f"GPU-00000000000000a{index}", "gfx942") for index in range(4)
)


@pytest.mark.parametrize(
    ("rocr", "hip", "cuda", "how", "shown"),
    [
        ("2,3", "0,1", None, SUBSET, 2),
        ("2,3", "1", None, SUBSET, 1),
        ("2,3", "2", None, OUT_OF_RANGE, 0),
        ("2,3", None, "1", SUBSET, 1),
        ("2,3", "1", "", SUBSET, 1),  # HIP reads CUDA's only where its own is not set
        ("2,3", "GPU-00000000000000a3", None, SUBSET, 1),
        ("2,3", "GPU-00000000000000a0", None, UNKNOWN, 0),
        ("", "0", None, HIDES_ALL, 0),
        (None, "0,0", None, REPEATED, 0),
        (None, "3,7", None, OUT_OF_RANGE, 1),
    ],
)
def test_hips_variable_counts_among_the_gpus_that_rocrs_leaves(rocr, hip, cuda, how, shown) -> None:
    given = {"ROCR_VISIBLE_DEVICES": rocr, "HIP_VISIBLE_DEVICES": hip, "CUDA_VISIBLE_DEVICES": cuda}
    environment = {name: value for name, value in given.items() if value is not None}
    hiding = hidden(environment, "rocm", FOUR)
    assert hiding is not None
    assert (hiding.how, hiding.shown) == (how, shown)


def test_variables_that_together_show_all_hide_none() -> None:
    order = {"ROCR_VISIBLE_DEVICES": "3,2,1,0", "HIP_VISIBLE_DEVICES": "1,0,2,3"}
    assert hidden(order, "rocm", FOUR) is None


def test_a_choice_of_two_variables_shows_both() -> None:
    two = replace(AMD, drivers=(Driver("rocm", "works", gpus=FOUR),))
    machine = with_environment(two, ROCR_VISIBLE_DEVICES="2,3", HIP_VISIBLE_DEVICES="1")
    (note,) = found(machine, torch(1, FOR_ROCM))
    assert note.title == "HIP_VISIBLE_DEVICES shows 1 of 4 GPUs."
    assert note.evidence[:2] == ("ROCR_VISIBLE_DEVICES=2,3", "HIP_VISIBLE_DEVICES=1")
    assert is_healthy(case(machine, torch(1, FOR_ROCM)), [note])


def test_a_variable_is_mended_in_the_words_of_the_shell_that_is_there() -> None:
    windows = replace(with_environment(WORKING, CUDA_VISIBLE_DEVICES=""), system="Windows")
    assert found(windows, torch(0))[0].remedies[0].command == (
        "Remove-Item Env:CUDA_VISIBLE_DEVICES"
    )


def test_what_is_hidden_matters_only_where_there_is_something_to_hide() -> None:
    assert "visible-devices" not in causes(
        with_environment(EMPTY, CUDA_VISIBLE_DEVICES=""), torch(0)
    )


def test_a_driver_that_is_missing_comes_before_the_variable_that_hides_it() -> None:
    machine = with_environment(UNDRIVEN, CUDA_VISIBLE_DEVICES="")
    assert causes(machine, torch(0)) == ["no-driver", "visible-devices"]


# -- a fork ----------------------------------------------------------------------------------------

UVM = ("/dev/nvidia-uvm",)


def test_a_fork_of_a_process_that_had_initialised_cuda_comes_first() -> None:
    process = Process(20, 10, is_forked=True, holds_gpu=UVM, parent_holds_gpu=UVM)
    first, *_ = found(WORKING, torch(0), process=process)
    assert first.cause == "fork"
    assert "process 20 is a fork of 10" in first.evidence
    assert 'multiprocessing.set_start_method("spawn")' in everything(first)


@pytest.mark.parametrize(
    "process",
    [
        Process(20, 10, is_forked=True),
        Process(20, 10, is_forked=False, holds_gpu=UVM, parent_holds_gpu=UVM),
        Process(20, 10, is_forked=True, holds_gpu=(), parent_holds_gpu=UVM),
        Process(20, 10, is_forked=True, holds_gpu=UVM, parent_holds_gpu=()),
    ],
)
def test_other_processes_are_no_such_forks(process) -> None:
    assert causes(WORKING, torch(2), process=process) == []


def test_one_gpu_of_one_hides_nothing() -> None:
    machine = with_gpus(gpu(0))
    assert causes(with_environment(machine, CUDA_VISIBLE_DEVICES="0"), torch(1)) == []


@pytest.mark.parametrize(
    ("chosen", "machine", "title"),
    [
        ("jx", WORKING, "UNIDEV_BACKEND names jx, which is not installed here."),
        ("jx", EMPTY, "UNIDEV_BACKEND names jx, which is not installed here."),
        ("numpy", WORKING, "UNIDEV_BACKEND names NumPy, which uses no GPU."),
    ],
)
def test_a_chosen_backend_that_can_use_no_gpu_is_said_first(chosen, machine, title) -> None:
    first, *_ = diagnose(replace(case(machine, torch(2)), chosen=chosen))
    assert (first.cause, first.title, first.is_blocking) == ("backend", title, True)
    assert "unset UNIDEV_BACKEND" in everything(first)
    assert "export UNIDEV_BACKEND=torch" in everything(first)


@pytest.mark.parametrize(
    ("chosen", "machine"), [("torch", WORKING), (None, WORKING), ("numpy", EMPTY)]
)
def test_a_chosen_backend_that_is_there_is_no_finding(chosen, machine) -> None:
    found = diagnose(replace(case(machine, torch(2)), chosen=chosen))
    assert "backend" not in [each.cause for each in found]
