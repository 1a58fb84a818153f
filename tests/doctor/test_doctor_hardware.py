"""Causes between the bus and the driver, on machines that are made up."""

from __future__ import annotations

from dataclasses import replace

import pytest
from doctor_cases import (
    AMD,
    EMPTY,
    FOR_ROCM,
    INTEL,
    NVIDIA_FILES,
    ON_BUS,
    UNDRIVEN,
    WORKING,
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
from unidev.system.facts import (
    FAILS,
    LOST,
    MISMATCH,
    NO_ANSWER,
    NO_LIBRARY,
    NO_PERMISSION,
    NOT_ASKED,
    DeviceFile,
    Driver,
    Machine,
    PciDevice,
    UnreadableGpu,
)

IN_A_CONTAINER = replace(WORKING, container="/.dockerenv", device_files=(), drivers=(
    Driver("cuda", NO_LIBRARY, "NVML Shared Library Not Found"),
))  # fmt: skip


def silent(state: str, message: str) -> Machine:
    return replace(WORKING, drivers=(Driver("cuda", state, message),))


def test_a_machine_on_which_all_is_well_has_no_findings() -> None:
    assert found() == []
    assert is_healthy(case(), [])


def test_no_gpu_on_the_bus_comes_first_and_says_how_many_devices_were_looked_at() -> None:
    first, *_ = found(EMPTY, torch(0))
    assert first.cause == "no-gpu"
    assert "PCI devices on the bus: 6; NVIDIA, AMD or Intel GPUs: none" in first.evidence
    assert "export UNIDEV_SIMULATE=2" in everything(first)
    assert not is_healthy(case(EMPTY, torch(0)), [first])


def test_a_system_without_a_bus_to_look_at_is_said_to_be_one() -> None:
    (first,) = found(replace(EMPTY, system="Windows", pci_count=None), torch(0))
    assert "Windows does not expose a PCI bus" in everything(first)
    assert first.title == "No GPU or GPU driver was found."
    assert '$env:UNIDEV_SIMULATE = "2"' in everything(first)


def test_graphics_of_a_virtual_machine_are_no_gpu() -> None:
    assert causes(replace(EMPTY, device_files=(DeviceFile("/dev/dri/renderD128"),)), torch(0)) == [
        "no-gpu"
    ]


@pytest.mark.parametrize(
    ("distribution", "command"),
    [("ubuntu", "sudo ubuntu-drivers install"), ("debian", "sudo apt install nvidia-driver")],
)
def test_without_a_driver_the_distributions_command_is_given(distribution, command) -> None:
    (first,) = found(replace(UNDRIVEN, distribution=distribution), torch(0))
    assert first.cause == "no-driver"
    assert command in everything(first)
    assert "0000:17:00.0: NVIDIA GPU without NVIDIA's driver" in first.evidence
    assert "NVML: Driver Not Loaded" in first.evidence


def test_without_a_driver_and_a_known_distribution_there_is_the_makers_page() -> None:
    (first,) = found(replace(UNDRIVEN, distribution="gentoo"), torch(0))
    assert first.link == "https://www.nvidia.com/en-us/drivers/"
    assert [each.command for each in first.remedies] == [None]


def test_nouveau_is_named_where_it_has_the_gpu() -> None:
    on_bus = tuple(replace(each, driver="nouveau") for each in ON_BUS)
    (first,) = found(replace(UNDRIVEN, gpus_on_bus=on_bus), torch(0))
    assert first.cause == "nouveau"
    assert "0000:17:00.0: kernel driver nouveau" in first.evidence


def test_a_gpu_that_is_reserved_for_a_virtual_machine_is_said_to_be() -> None:
    on_bus = tuple(replace(each, driver="vfio-pci") for each in ON_BUS)
    assert causes(replace(UNDRIVEN, gpus_on_bus=on_bus), torch(0)) == ["reserved"]


def test_a_driver_that_was_updated_under_a_running_system_asks_for_a_restart() -> None:
    (first,) = found(silent(MISMATCH, "Driver/library version mismatch"), torch(0))
    assert first.cause == "driver-mismatch"
    assert first.remedies[0].command == "sudo reboot"
    assert "kernel module 570.86.15" in first.evidence


def test_a_driver_that_does_not_answer_is_quoted() -> None:
    (first,) = found(silent(FAILS, "GPU is lost"), torch(0))
    assert first.cause == "driver-fails"
    assert "NVML: GPU is lost" in first.evidence
    assert first.remedies[0].command == "nvidia-smi"


def test_wsl_without_a_gpu_sends_to_windows() -> None:
    wsl = replace(EMPTY, is_wsl=True)
    (first,) = found(wsl, torch(0))
    assert first.cause == "wsl"
    assert "/dev/dxg does not exist" in first.evidence
    assert "wsl --update" in everything(first)
    assert "none inside WSL" in everything(first)


def test_wsl_with_a_gpu_is_well() -> None:
    wsl = replace(WORKING, is_wsl=True, gpus_on_bus=(), device_files=(DeviceFile("/dev/dxg"),))
    assert causes(wsl) == []


def test_a_container_without_device_files_is_told_from_a_missing_driver() -> None:
    (first,) = found(with_environment(IN_A_CONTAINER, NVIDIA_VISIBLE_DEVICES="void"), torch(0))
    assert first.cause == "container"
    assert "this is a container (/.dockerenv)" in first.evidence
    assert "NVIDIA_VISIBLE_DEVICES=void" in first.evidence
    assert "docker run --gpus all IMAGE" in everything(first)


def test_a_container_with_files_and_without_the_drivers_libraries_is_one_too() -> None:
    (first,) = found(replace(IN_A_CONTAINER, device_files=NVIDIA_FILES), torch(0))
    assert first.cause == "container"
    assert "without the libraries" in first.title


def test_in_a_container_the_driver_is_installed_on_the_host() -> None:
    (first,) = found(replace(UNDRIVEN, container="/.dockerenv"), torch(0))
    assert first.cause == "no-driver"
    assert "on the host, not in the container" in everything(first)
    assert "ubuntu-drivers" not in everything(first)


def test_device_files_that_are_missing_outside_a_container_can_be_made() -> None:
    bare = replace(IN_A_CONTAINER, container=None)
    (first,) = found(bare, torch(0))
    assert (first.cause, first.remedies[0].command) == (
        "no-device-files", "sudo nvidia-modprobe -u -c=0",
    )  # fmt: skip


def test_files_that_this_user_may_not_use_are_named() -> None:
    shut = tuple(replace(each, is_accessible=False) for each in NVIDIA_FILES)
    machine = replace(silent(NO_PERMISSION, "Insufficient Permissions"), device_files=shut)
    (first,) = found(machine, torch(0))
    assert first.cause == "no-permission"
    assert "no permission to read and write /dev/nvidia0" in first.evidence


def test_amds_gpu_is_seen_in_a_container_and_cannot_be_reached_without_its_files() -> None:
    machine = replace(AMD, container="/.dockerenv", device_files=())
    first, *_ = found(machine, torch(0, FOR_ROCM))
    assert first.cause == "container"
    assert "--device=/dev/kfd --device=/dev/dri" in everything(first)


def test_amds_gpu_that_this_user_may_not_use_names_the_groups() -> None:
    files = (DeviceFile("/dev/dri/renderD128"), DeviceFile("/dev/kfd", is_accessible=False))
    first, *_ = found(replace(AMD, device_files=files), torch(0, FOR_ROCM))
    assert first.cause == "no-permission"
    assert 'sudo usermod -aG render,video "$USER"' in everything(first)
    assert "no permission to read and write /dev/kfd" in first.evidence


def test_amds_gpu_without_its_driver_is_said_to_have_none() -> None:
    on_bus = (PciDevice("0000:03:00.0", "0x1002"),)
    machine = replace(AMD, gpus_on_bus=on_bus, device_files=(), drivers=(Driver("rocm", FAILS),))
    (first,) = found(machine, torch(0, FOR_ROCM))
    assert (first.cause, "AMD's driver" in first.title) == ("no-driver", True)


def test_intels_gpu_that_this_user_may_not_use_is_said_so() -> None:
    files = (DeviceFile("/dev/dri/renderD128", is_accessible=False),)
    assert found(replace(INTEL, device_files=files))[0].cause == "no-permission"


def test_a_laptops_own_graphics_say_nothing_where_there_is_a_gpu_of_nvidia() -> None:
    own = PciDevice("0000:00:02.0", "0x8086", None)
    assert causes(replace(WORKING, gpus_on_bus=(*ON_BUS, own))) == []
    undriven = replace(UNDRIVEN, gpus_on_bus=(*UNDRIVEN.gpus_on_bus, replace(own, driver="i915")))
    assert causes(undriven, torch(0)) == ["no-driver"]


def test_a_driver_that_never_answers_is_said_so() -> None:
    (first,) = found(silent(NO_ANSWER, "no answer within 60 s"), torch(0))
    assert first.cause == "driver-fails"
    assert "NVML: no answer within 60 s" in first.evidence


def test_without_nvidia_ml_py_the_remedy_is_to_install_it() -> None:
    (first,) = found(silent(NOT_ASKED, "nvidia-ml-py is not installed"), torch(0))
    assert (first.cause, first.remedies[0].command) == ("driver-fails", "pip install nvidia-ml-py")


@pytest.mark.parametrize("machine", [EMPTY, IN_A_CONTAINER, UNDRIVEN])
def test_a_gpu_that_a_framework_uses_is_there_whatever_the_drivers_say(machine) -> None:
    """Jetson's has no NVML; a container may have CUDA's library without NVML's."""
    assert causes(machine, torch(1)) == []
    assert is_healthy(case(machine, torch(1)), [])
    assert not is_healthy(case(machine, torch(1), torch(0)), [])


def test_of_a_gpu_that_is_divided_one_part_is_all_that_a_process_sees() -> None:
    machine = with_gpus(divided("MIG-1", "MIG-2"), gpu(1))
    assert causes(machine, torch(1)) == []
    assert causes(with_environment(machine, CUDA_VISIBLE_DEVICES="MIG-2"), torch(1)) == []
    assert causes(machine, torch(0)) == ["unexplained"]


LOST_ONE = UnreadableGpu(1, LOST, "GPU is lost")


def test_a_gpu_that_is_lost_is_not_healthy_though_the_framework_sees_the_others() -> None:
    machine = with_gpus(gpu(0), unreadable=(LOST_ONE,))
    (first,) = found(machine, torch(1))
    assert (first.cause, first.is_blocking) == ("gpu-lost", True)
    assert first.title == "GPU 1 no longer answers the driver."
    assert first.evidence == ("NVML, of GPU 1: GPU is lost",)
    assert not is_healthy(case(machine, torch(1)), [first])


def test_the_only_gpu_that_is_lost_is_the_one_finding() -> None:
    machine = with_gpus(unreadable=(replace(LOST_ONE, index=0),))
    assert causes(machine, torch(0)) == ["gpu-lost"]
    assert causes(machine, torch(1)) == ["gpu-lost"]


def test_gpus_of_other_jobs_are_a_note_where_there_is_one_to_use() -> None:
    others = tuple(UnreadableGpu(index, NO_PERMISSION, "Insufficient Permissions")
                   for index in (1, 2, 3))  # fmt: skip
    machine = with_environment(with_gpus(gpu(0), unreadable=others), CUDA_VISIBLE_DEVICES="0")
    (note,) = found(machine, torch(1))
    assert (note.cause, note.is_blocking) == ("gpu-not-permitted", False)
    assert note.title == "This process has no permission to use GPUs 1, 2 and 3."
    assert is_healthy(case(machine, torch(1)), [note])


def test_a_process_that_may_use_no_gpu_is_not_healthy() -> None:
    machine = with_gpus(unreadable=(UnreadableGpu(0, NO_PERMISSION, "Insufficient Permissions"),))
    (first,) = found(machine, torch(0))
    assert (first.cause, first.is_blocking) == ("gpu-not-permitted", True)
    assert not is_healthy(case(machine, torch(0)), [first])


def test_apples_gpu_needs_no_driver_of_its_own() -> None:
    from unidev.contract.installation import Build
    from unidev.system.facts import Gpu

    apple = Machine("Darwin", drivers=(Driver("mps", "works", gpus=(Gpu("mps", 0, "Apple GPU"),)),))
    able = case(apple, torch(1, Build(accelerator="mps")))
    assert diagnose(able) == []
    assert is_healthy(able, [])


def test_simulated_gpus_are_said_to_be_none_after_what_is_missing() -> None:
    both = found(with_environment(EMPTY, UNIDEV_SIMULATE="4"), torch(0))
    assert [each.cause for each in both] == ["no-gpu", "simulated"]
    assert "gpu:0 to gpu:3 are simulated" in both[1].title
    assert not both[1].is_blocking
    assert "simulate" not in everything(both[0])
    (without,) = found(with_environment(EMPTY, UNIDEV_SIMULATE="0"), torch(0))
    assert "export UNIDEV_SIMULATE=2" in everything(without)


@pytest.mark.parametrize("value", ["two", "-1", "100"])
def test_a_number_of_simulated_gpus_that_is_none_is_said_first(value) -> None:
    (first,) = found(with_environment(WORKING, UNIDEV_SIMULATE=value), torch(2))
    assert (first.cause, first.is_blocking) == ("simulated", True)
    assert f"must be an integer from 0 to 64, not '{value}'" in everything(first)
    assert "unset UNIDEV_SIMULATE" in everything(first)


def test_simulated_gpus_are_named_as_programs_see_them() -> None:
    named = with_environment(WORKING, UNIDEV_SIMULATE="4", UNIDEV_SIMULATE_AS="cuda")
    (first,) = found(named, torch(2))
    assert first.title.endswith("gpu:0 to gpu:3 are simulated, and programs see them as cuda.")
    assert "UNIDEV_SIMULATE=4 UNIDEV_SIMULATE_AS=cuda: they use host memory" in everything(first)
    assert "unset UNIDEV_SIMULATE; unset UNIDEV_SIMULATE_AS" in everything(first)
    (first,) = found(with_environment(WORKING, UNIDEV_SIMULATE_AS="cuda"), torch(2))
    assert first.is_blocking
    assert "UNIDEV_SIMULATE_AS=cuda is set, but no GPUs are simulated" in everything(first)


def test_simulated_gpus_come_first_where_they_hide_real_ones() -> None:
    (first,) = found(with_environment(WORKING, UNIDEV_SIMULATE="1"), torch(2))
    assert (first.cause, first.is_blocking) == ("simulated", True)
    assert "unset UNIDEV_SIMULATE" in everything(first)
    assert not is_healthy(case(), [first])


@pytest.mark.parametrize("value", ["", "0", " "])
def test_no_simulation_is_not_mentioned(value) -> None:
    assert causes(with_environment(WORKING, UNIDEV_SIMULATE=value)) == []
