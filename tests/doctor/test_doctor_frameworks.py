"""Causes in how a framework was built, and in who has the memory; several at once."""

from __future__ import annotations

from dataclasses import replace

import pytest
from doctor_cases import (
    AMD,
    EMPTY,
    FOR_CUDA,
    FOR_ROCM,
    FOR_THE_CPU,
    FULL,
    GIB,
    NUMPY,
    TAKEN,
    UNDRIVEN,
    WORKING,
    case,
    causes,
    divided,
    everything,
    found,
    gpu,
    tensorflow,
    torch,
    with_environment,
    with_gpus,
)

from unidev.contract.installation import Build, Conflict
from unidev.doctor.diagnosis import RANKING, diagnose, is_healthy
from unidev.doctor.facts import Case
from unidev.doctor.framework_causes import has_code
from unidev.system.facts import GpuProcess

OLD_DRIVER = {"version": "470.256.02", "cuda_version": "11.4"}


def test_a_build_for_the_cpu_names_the_published_command_and_page() -> None:
    (first,) = found(WORKING, torch(0, FOR_THE_CPU))
    assert first.cause == "cpu-only-wheel"
    assert first.title == "torch 2.13.0 is a CPU-only build."
    assert first.link == "https://pytorch.org/get-started/locally/"
    assert first.remedies[0].command == "pip install torch-cu126"  # the driver runs CUDA 12


def test_the_command_fits_the_maker_and_the_driver() -> None:
    newer = with_gpus(gpu(0), gpu(1), cuda_version="13.1")
    assert "cu130" in everything(found(newer, torch(0, FOR_THE_CPU))[0])
    (first,) = found(AMD, torch(0, FOR_THE_CPU))
    assert first.remedies[0].command == "pip install torch-rocm7.2"


def test_a_maker_for_whom_there_is_no_build_is_said_so() -> None:
    only_cuda = replace(FOR_THE_CPU, wheels=FOR_THE_CPU.wheels[:2])
    (first,) = found(AMD, torch(0, only_cuda))
    assert "there is no known build of torch for AMD" in first.evidence
    assert first.remedies[0].command is None


def test_a_build_for_the_cpu_is_only_worth_knowing_where_there_is_no_gpu() -> None:
    first, second = found(EMPTY, torch(0, FOR_THE_CPU))
    assert (first.cause, second.cause) == ("no-gpu", "cpu-only-wheel")
    assert not second.is_blocking
    assert second.remedies[0].text == "On a machine with a GPU: Install its build for CUDA 13.0."


def test_a_build_for_another_makers_gpus_is_told_with_the_right_one() -> None:
    (first,) = found(WORKING, torch(0, FOR_ROCM))
    assert first.cause == "other-wheel"
    assert "built for rocm 7.2" in first.evidence
    assert first.remedies[0].command == "pip install torch-cu126"


def test_a_driver_older_than_cuda_is_told_with_both_numbers_and_both_ways_out() -> None:
    (first,) = found(with_gpus(gpu(0), **OLD_DRIVER), torch(0))
    assert first.cause == "driver-too-old"
    assert "driver 470.256.02 supports CUDA up to 11.4" in first.evidence
    assert "torch uses CUDA 12.6, which needs driver 525.60.13 or newer" in first.evidence
    assert "sudo ubuntu-drivers install" in everything(first)
    assert "build for CUDA 11: https://pytorch.org" in everything(first)


def test_an_older_build_that_the_driver_runs_is_named() -> None:
    build = replace(FOR_CUDA, version="13.0")
    (first,) = found(WORKING, torch(0, build))
    assert first.cause == "driver-too-old"
    assert "Or keep the driver. Install its build for CUDA 12.6." in everything(first)
    assert "pip install torch-cu126" in everything(first)


@pytest.mark.parametrize(
    ("built", "driver", "is_old"),
    [
        ("12.6", "12.2", False),  # minor versions are compatible
        ("11.8", "12.4", False),
        ("13.0", "12.9", True),
        ("10.2", "10.1", True),  # not yet, then
        ("10.1", "10.2", False),
    ],
)
def test_which_driver_is_too_old_follows_nvidias_table(built, driver, is_old) -> None:
    machine = with_gpus(gpu(0), cuda_version=driver)
    expected = ["driver-too-old"] if is_old else ["unexplained"]
    assert causes(machine, torch(0, replace(FOR_CUDA, version=built))) == expected


def test_a_driver_that_works_all_the_same_is_not_too_old() -> None:
    assert causes(with_gpus(gpu(0), **OLD_DRIVER), torch(1)) == []


def test_cudnn_that_tensorflow_does_not_find_is_named() -> None:
    build = replace(FOR_CUDA, cudnn="9", missing=("libcudnn.so.9",))
    (first,) = found(WORKING, tensorflow(0, build))
    assert first.cause == "library-missing"
    assert first.title == "tensorflow 2.13.0 does not find cuDNN."
    assert "libcudnn.so.9 was not found" in first.evidence
    assert "tensorflow was built with cuDNN 9" in first.evidence


def test_parts_that_do_not_work_together_are_named_with_each_command_once() -> None:
    conflicts = tuple(Conflict(f"part {number} is old.", "pip install parts") for number in (1, 2))
    build = replace(FOR_CUDA, conflicts=conflicts)
    (first,) = found(WORKING, torch(0, build))
    assert first.cause == "parts-conflict"
    assert first.evidence == ("part 1 is old.", "part 2 is old.")
    assert [each.command for each in first.remedies] == ["pip install parts"]
    assert first.is_blocking
    (note,) = found(WORKING, torch(2, build))
    assert not note.is_blocking


def test_a_gpu_for_which_the_wheel_has_no_code_is_named_with_both_lists() -> None:
    machine = with_gpus(gpu(0), gpu(1, name="Tesla P100", architecture="sm_60"))
    (first,) = found(machine, torch(2))
    assert first.cause == "no-code"
    assert first.title == "torch 2.13.0 was not compiled for Tesla P100."
    assert "GPU 1, Tesla P100, is sm_60" in first.evidence
    assert "torch was compiled for sm_80, sm_90" in first.evidence
    assert not is_healthy(case(machine), [first])


def test_an_old_gpu_is_sent_to_the_oldest_build_and_a_new_one_to_the_newest() -> None:
    machine = with_gpus(gpu(0, architecture="sm_60"), cuda_version="13.0")
    assert found(machine, torch(1))[0].remedies[0].command == "pip install torch-cu126"
    machine = with_gpus(gpu(0, architecture="sm_120"), cuda_version="13.0")
    assert found(machine, torch(1))[0].remedies[0].command == "pip install torch-cu130"


@pytest.mark.parametrize(
    ("architectures", "gpus", "runs"),
    [
        (("sm_80",), "sm_80", True),
        (("sm_80",), "sm_86", True),  # within a major version, upwards
        (("sm_86",), "sm_80", False),
        (("sm_80",), "sm_90", False),
        (("compute_80",), "sm_90", True),  # PTX is compiled for what is newer
        (("compute_90",), "sm_80", False),
        (("sm_90a",), "sm_90", True),
        (("sm_100a",), "sm_103", False),
        (("sm_100f",), "sm_103", True),
        (("sm_90", "sm_100"), "sm_120", False),
        ((), "sm_20", True),  # nobody says
        (("gfx90a", "gfx942:xnack-"), "gfx942", True),
        (("gfx90a",), "gfx1100", False),
        (("what is this",), "sm_80", False),
    ],
)
def test_code_runs_where_nvidia_and_amd_say_that_it_does(architectures, gpus, runs) -> None:
    assert has_code(architectures, gpus) == runs


def test_a_rocm_told_to_take_another_architecture_is_believed() -> None:
    unknown = replace(AMD.driver("rocm").gpus[0], architecture="gfx1103")
    machine = replace(AMD, drivers=(replace(AMD.driver("rocm"), gpus=(unknown,)),))
    assert causes(machine, torch(1, FOR_ROCM)) == ["no-code"]
    told = with_environment(machine, HSA_OVERRIDE_GFX_VERSION="11.0.0")
    assert causes(told, torch(1, FOR_ROCM)) == []


def test_a_framework_that_does_not_load_is_told_with_its_words() -> None:
    broken = torch(0, state="crashes", problem="its process ended: killed by SIGSEGV", said="x\ny")
    (first,) = found(WORKING, broken)
    assert first.cause == "framework-broken"
    assert first.evidence == ("its process ended: killed by SIGSEGV", "x", "y")


def test_a_gpu_that_a_framework_does_not_see_for_no_known_reason_is_not_hushed_up() -> None:
    (first,) = found(WORKING, torch(1, said="a warning\nand why"))
    assert first.cause == "unexplained"
    assert first.title.startswith("torch 2.13.0 sees 1 of 2 GPUs")
    assert first.evidence == ("a warning", "and why")
    assert not is_healthy(case(WORKING, torch(1)), [first])


def test_a_strangers_backend_that_does_not_tell_its_build_is_still_counted() -> None:
    stranger = replace(torch(0), backend="strange", build=None)
    assert causes(WORKING, stranger) == ["unexplained"]
    assert is_healthy(case(WORKING, replace(stranger, gpus_seen=2)), [])


def test_numpy_is_not_expected_to_see_a_gpu() -> None:
    assert causes(WORKING, NUMPY, torch(2)) == []
    assert is_healthy(case(WORKING, NUMPY, torch(2)), [])


def test_gpus_and_no_framework_that_uses_them_is_a_cause() -> None:
    (first,) = diagnose(Case(WORKING))
    assert (first.cause, first.is_blocking) == ("no-framework", True)
    assert "unidev-torch[framework]" in everything(first)
    assert not is_healthy(Case(WORKING), [first])
    (first,) = found(WORKING, NUMPY)
    assert first.title == "There is no build of numpy with GPU support."


# -- memory ----------------------------------------------------------------------------------------


def test_memory_that_another_process_has_is_told_with_its_pid_name_and_bytes() -> None:
    (first,) = found(with_gpus(FULL), torch(1))
    assert first.cause == "memory-taken"
    assert first.title == "The memory of GPU 0 is used by process 4242 (python)."
    assert "process 4242: python: 139 GiB" in first.evidence
    assert first.evidence[0].startswith("139 GiB of 140 GiB")
    assert first.evidence.index("process 7: Xorg: 128 MiB") == 2
    assert "kill 4242" in everything(first)


def test_only_a_process_of_ones_own_is_to_be_ended() -> None:
    stranger, own = GpuProcess(4242, None, 100 * GIB), GpuProcess(7, "python", 39 * GIB)
    (first,) = found(with_gpus(replace(FULL, processes=(stranger, own))), torch(1))
    assert "kill 7" in everything(first)
    assert "4242, or end it" not in everything(first)
    (first,) = found(with_gpus(replace(FULL, processes=(stranger,))), torch(1))
    assert "belongs to another user" in everything(first)
    assert "kill" not in everything(first)


def test_a_gpu_whose_memory_is_taken_is_seen_all_the_same() -> None:
    full = case(with_gpus(FULL), torch(1))
    assert is_healthy(full, diagnose(full))


def test_memory_taken_by_nobody_whom_the_driver_knows_is_told_as_such() -> None:
    (first,) = found(with_gpus(replace(FULL, processes=())), torch(1))
    assert "another container or user" in everything(first)
    assert "kill" not in everything(first)


def test_memory_of_which_a_tenth_is_free_is_not_taken() -> None:
    assert causes(with_gpus(gpu(0, used_bytes=126 * GIB)), torch(1)) == []
    assert causes(with_gpus(gpu(0, used_bytes=127 * GIB)), torch(1)) == ["memory-taken"]


def test_a_card_that_does_not_tell_its_memory_has_no_memory_taken() -> None:
    assert causes(with_gpus(gpu(0, used_bytes=None, total_bytes=None)), torch(1)) == []


def test_memory_that_is_the_hosts_is_taken_by_no_process_of_the_gpu() -> None:
    shared = gpu(0, used_bytes=139 * GIB, shares_host_memory=True)
    assert causes(with_gpus(shared), torch(1)) == []


def test_of_a_divided_gpu_the_instance_is_full_and_not_the_whole() -> None:
    whole = replace(divided("MIG-1", used_bytes=19 * GIB), used_bytes=139 * GIB)
    (first,) = found(with_gpus(whole), torch(1))
    assert first.title.startswith(
        "The memory of NVIDIA H200 MIG 1g.18gb, part of GPU 0, NVIDIA H200, is used by"
    )


def test_of_two_frameworks_the_one_that_has_taken_all_is_named_and_stopped() -> None:
    both = replace(TAKEN, libraries=("libtorch_cuda.so", "libtensorflow_cc.so.2"))
    (first,) = found(with_gpus(replace(FULL, processes=(both,))), torch(1))
    assert first.cause == "two-frameworks"
    assert first.title == (
        "PyTorch and TensorFlow share GPU 0, and TensorFlow has allocated its memory."
    )
    assert "export TF_FORCE_GPU_ALLOW_GROWTH=true" in everything(first)


def test_two_frameworks_in_two_processes_are_two_frameworks_too() -> None:
    holders = (
        replace(TAKEN, libraries=("libc.so.6", "xla_cuda_plugin.so")),
        GpuProcess(8, "python", GIB // 2, ("libtorch_cpu.so",)),
    )
    (first,) = found(with_gpus(replace(FULL, processes=holders)), torch(1))
    assert first.cause == "two-frameworks"
    assert "XLA_PYTHON_CLIENT_PREALLOCATE=false" in everything(first)
    assert "process 8: python: 512 MiB, with PyTorch" in first.evidence


def test_of_two_frameworks_that_take_what_they_need_none_is_blamed() -> None:
    both = replace(TAKEN, libraries=("libpaddle.so", "libtorch.so"))
    (first,) = found(with_gpus(replace(FULL, processes=(both,))), torch(1))
    assert first.title == "PyTorch and PaddlePaddle share GPU 0, and its memory is full."


def test_one_framework_that_takes_all_is_told_how_not_to() -> None:
    holder = replace(TAKEN, libraries=("libtensorflow_framework.so.2",))
    (first,) = found(with_gpus(replace(FULL, processes=(holder,))), torch(1))
    assert first.cause == "memory-taken"
    assert "TF_FORCE_GPU_ALLOW_GROWTH" in everything(first)


# -- several at once -------------------------------------------------------------------------------


def test_what_lies_below_is_mended_first() -> None:
    machine = with_environment(
        replace(UNDRIVEN, container="/.dockerenv"), CUDA_VISIBLE_DEVICES="", UNIDEV_SIMULATE="2"
    )
    told = found(machine, torch(0, FOR_THE_CPU), tensorflow(0, FOR_THE_CPU))
    assert [(each.cause, each.is_blocking, each.backend) for each in told] == [
        ("no-driver", True, None),
        ("visible-devices", True, None),
        ("simulated", False, None),
        ("cpu-only-wheel", False, "tensorflow"),
        ("cpu-only-wheel", False, "torch"),
    ]


def test_each_framework_has_its_own_cause_and_the_one_that_is_well_has_none() -> None:
    paddle = torch(2, backend="paddle", framework="paddle")
    told = found(
        WORKING, tensorflow(0, FOR_THE_CPU), torch(0, replace(FOR_CUDA, version="13.0")), paddle
    )
    assert [(each.cause, each.backend) for each in told] == [
        ("cpu-only-wheel", "tensorflow"),
        ("driver-too-old", "torch"),
    ]


def test_what_only_is_worth_knowing_comes_after_what_blocks() -> None:
    machine = with_environment(with_gpus(FULL), CUDA_VISIBLE_DEVICES="3")
    assert causes(machine, torch(0)) == ["visible-devices", "memory-taken"]


def test_every_cause_has_its_place_in_the_ranking() -> None:
    import re
    from pathlib import Path

    import unidev.doctor

    folder = Path(unidev.doctor.__file__).parent
    source = "".join(path.read_text() for path in folder.glob("*_causes.py"))
    assert len(set(RANKING)) == len(RANKING)
    assert set(re.findall(r'Finding\(\s*"([a-z-]+)"', source)) | {
        "two-frameworks", "memory-taken",
    } == set(RANKING)  # fmt: skip


def test_a_build_for_a_maker_nobody_here_knows_is_a_build_for_others() -> None:
    assert causes(WORKING, torch(0, Build(accelerator="kunlun"))) == ["other-wheel"]
