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


def driven_by(driver: str) -> Machine:
    return replace(UNDRIVEN, gpus_on_bus=tuple(replace(each, driver=driver) for each in ON_BUS))


def shut(*files: DeviceFile) -> tuple[DeviceFile, ...]:
    return tuple(replace(each, is_accessible=False) for each in files)


RENDER, KFD = DeviceFile("/dev/dri/renderD128"), DeviceFile("/dev/kfd")
ON_BUS_ONLY = "0000:17:00.0: NVIDIA GPU without NVIDIA's driver"
FIRST_CAUSES = {
    "no driver on Ubuntu": (
        UNDRIVEN, "no-driver", "sudo ubuntu-drivers install", ON_BUS_ONLY,
        "NVML: Driver Not Loaded",
    ),
    "no driver on Debian": (
        replace(UNDRIVEN, distribution="debian"), "no-driver", "sudo apt install nvidia-driver",
    ),
    "no driver elsewhere": (
        replace(UNDRIVEN, distribution="gentoo"), "no-driver",
        "Install NVIDIA's driver and restart.\n\nhttps://www.nvidia.com/en-us/drivers/",
    ),
    "nouveau": (driven_by("nouveau"), "nouveau", "0000:17:00.0: kernel driver nouveau"),
    "reserved for a virtual machine": (driven_by("vfio-pci"), "reserved", ""),
    "an update under a running system": (
        silent(MISMATCH, "Driver/library version mismatch"), "driver-mismatch",
        "kernel module 570.86.15\nRestart the machine.\nsudo reboot",
    ),
    "a driver that fails": (
        silent(FAILS, "GPU is lost"), "driver-fails", "NVML: GPU is lost", "\nnvidia-smi\n",
    ),
    "a driver that never answers": (
        silent(NO_ANSWER, "no answer within 60 s"), "driver-fails", "NVML: no answer within 60 s",
    ),
    "no nvidia-ml-py": (
        silent(NOT_ASKED, "nvidia-ml-py is not installed"), "driver-fails",
        "\npip install nvidia-ml-py",
    ),
    "WSL": (
        replace(EMPTY, is_wsl=True), "wsl", "/dev/dxg does not exist", "wsl --update",
        "none inside WSL",
    ),
    "a container without device files": (
        with_environment(IN_A_CONTAINER, NVIDIA_VISIBLE_DEVICES="void"), "container",
        "this is a container (/.dockerenv)", "NVIDIA_VISIBLE_DEVICES=void",
        "docker run --gpus all IMAGE",
    ),
    "a container without the driver's libraries": (
        replace(IN_A_CONTAINER, device_files=NVIDIA_FILES), "container", "without the libraries",
    ),
    "a container on a host without a driver": (
        replace(UNDRIVEN, container="/.dockerenv"), "no-driver",
        "(on the host, not in the container).\n\n",  # and no command
    ),
    "no device files": (
        replace(IN_A_CONTAINER, container=None), "no-device-files",
        "\nsudo nvidia-modprobe -u -c=0\n",
    ),
    "files of others": (
        replace(silent(NO_PERMISSION, "No"), device_files=shut(*NVIDIA_FILES)), "no-permission",
        "no permission to read and write /dev/nvidia0",
    ),
    "AMD's in a container": (
        replace(AMD, container="/.dockerenv", device_files=()), "container",
        "--device=/dev/kfd --device=/dev/dri",
    ),
    "AMD's of others": (
        replace(AMD, device_files=(RENDER, *shut(KFD))), "no-permission",
        'sudo usermod -aG render,video "$USER"', "no permission to read and write /dev/kfd",
    ),
    "AMD's without a driver": (
        replace(
            AMD, gpus_on_bus=(PciDevice("0000:03:00.0", "0x1002"),), device_files=(),
            drivers=(Driver("rocm", FAILS),),
        ),
        "no-driver", "AMD's driver",
    ),
    "Intel's of others": (replace(INTEL, device_files=shut(RENDER)), "no-permission", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", FIRST_CAUSES)
def test_what_comes_first_between_the_bus_and_the_driver(name: str) -> None:
    machine, cause, *said = FIRST_CAUSES[name]
    first, *others = found(machine, torch(0, FOR_ROCM) if "AMD" in name else torch(0))
    assert first.cause == cause
    assert not others or machine.gpus
    for words in said:
        assert words in everything(first)


def test_wsl_with_a_gpu_is_well() -> None:
    wsl = replace(WORKING, is_wsl=True, gpus_on_bus=(), device_files=(DeviceFile("/dev/dxg"),))
    assert causes(wsl) == []


def test_a_laptops_own_graphics_say_nothing_where_there_is_a_gpu_of_nvidia() -> None:
    own = PciDevice("0000:00:02.0", "0x8086", None)
    assert causes(replace(WORKING, gpus_on_bus=(*ON_BUS, own))) == []
    undriven = replace(UNDRIVEN, gpus_on_bus=(*UNDRIVEN.gpus_on_bus, replace(own, driver="i915")))
    assert causes(undriven, torch(0)) == ["no-driver"]


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
