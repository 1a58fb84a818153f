"""Reading a machine: its files, its driver, its processes; all of them made up."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import pytest
from fake_nvml import FakeNvml

from unidev.system import machine as machine_module
from unidev.system.facts import (
    FAILS,
    LOST,
    MISMATCH,
    NO_LIBRARY,
    NOT_ASKED,
    WORKS,
    DeviceFile,
    GpuProcess,
    UnreadableGpu,
)
from unidev.system.machine import read_machine
from unidev.system.nvml import ask_in_time, ask_nvml, import_nvml

if TYPE_CHECKING:
    from pathlib import Path


def unknown(_pid: int) -> tuple[None, tuple[str, ...]]:
    return None, ()


def test_the_driver_is_asked_and_let_go_of() -> None:
    nvml = FakeNvml()
    told = ask_nvml(nvml, unknown)
    assert (told.state, told.version, told.cuda_version) == (WORKS, "570.86.15", "12.8")
    (gpu,) = told.gpus
    assert (gpu.name, gpu.uuid, gpu.architecture) == ("NVIDIA H200", "GPU-1", "sm_90")
    assert (gpu.used_bytes, gpu.total_bytes, gpu.mig_uuids) == (3, 10, ())
    assert gpu.processes == (GpuProcess(1, None, 2), GpuProcess(2, None, None))
    assert not nvml.is_open


def test_a_process_is_named_as_the_system_names_it() -> None:
    told = ask_nvml(FakeNvml(), lambda pid: (f"python{pid}", ("libtorch.so",)))
    assert told.gpus[0].processes[0] == GpuProcess(1, "python1", 2, ("libtorch.so",))


def test_parts_of_a_gpu_are_known_by_their_uuids() -> None:
    assert ask_nvml(FakeNvml(mig=1), unknown).gpus[0].mig_uuids == ("MIG-1",)


@pytest.mark.parametrize(
    ("error", "state"),
    [(12, NO_LIBRARY), (9, "not loaded"), (4, "no permission"), (18, MISMATCH), (999, "fails")],
)
def test_what_nvml_says_at_its_start_is_told_apart(error, state) -> None:
    told = ask_nvml(FakeNvml(init=error), unknown)
    assert (told.state, told.message, told.gpus) == (state, f"error {error}", ())


def test_a_driver_that_fails_later_is_let_go_of_too() -> None:
    nvml = FakeNvml(count=15)
    assert ask_nvml(nvml, unknown).state == "fails"
    assert not nvml.is_open


@pytest.mark.parametrize(
    ("function", "error", "state"),
    [
        ("handle", 15, LOST),
        ("name", 15, LOST),
        ("memory", 15, LOST),
        ("handle", 16, LOST),
        ("handle", 4, "no permission"),
        ("handle", 999, FAILS),
    ],
)
def test_a_gpu_that_is_lost_or_not_permitted_hides_no_other(function, error, state) -> None:
    found = ask_nvml(FakeNvml(gpus=3, broken={1: (function, error)}), unknown)
    assert found.state == WORKS
    assert [(each.index, each.uuid) for each in found.gpus] == [(0, "GPU-1"), (2, "GPU-3")]
    assert found.unreadable == (UnreadableGpu(1, state, f"error {error}"),)


def test_memory_that_this_user_may_not_see_is_unknown_and_the_gpu_is_there() -> None:
    found = ask_nvml(FakeNvml(broken={0: ("memory", 4)}), unknown)
    assert (found.gpus[0].total_bytes, found.unreadable) == (None, ())
    assert not found.gpus[0].shares_host_memory


def test_without_nvidia_ml_py_nobody_is_asked() -> None:
    assert ask_nvml(None, unknown).state == NOT_ASKED


def test_a_driver_that_never_answers_is_waited_for_only_so_long() -> None:
    never = threading.Event()
    told = ask_in_time(lambda: never.wait(60) and None, 0.05)
    never.set()
    assert (told.state, told.message) == ("no answer", "no answer within 0.05 s")
    assert ask_in_time(lambda: ask_nvml(None, unknown), 60).state == NOT_ASKED


def test_nvidia_ml_py_has_all_that_is_used_of_it() -> None:
    nvml = import_nvml()
    names = [name for name in dir(FakeNvml) if name.lower().startswith("nvml")]
    assert len(names) > 15
    assert [name for name in names if not hasattr(nvml, name)] == []


# -- files -----------------------------------------------------------------------------------------


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A machine with no files, and no driver; `write` gives it some."""
    monkeypatch.setattr(machine_module, "import_nvml", lambda: None)
    return tmp_path


def write(root: Path, path: str, text: str = "") -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def put_on_bus(root: Path, address: str, vendor: str, kind: str, driver: str | None = None) -> None:
    folder = f"sys/bus/pci/devices/{address}"
    write(root, f"{folder}/vendor", f"{vendor}\n")
    write(root, f"{folder}/class", f"{kind}\n")
    if driver:
        (root / f"sys/bus/pci/drivers/{driver}").mkdir(parents=True)
        (root / folder / "driver").symlink_to(root / f"sys/bus/pci/drivers/{driver}")


def test_gpus_on_the_bus_are_found_by_maker_and_class_with_who_drives_them(root) -> None:
    put_on_bus(root, "0000:01:00.0", "0x10de", "0x030200", "nouveau")
    put_on_bus(root, "0000:01:00.1", "0x10de", "0x040300")  # the sound of the same card
    put_on_bus(root, "0000:02:00.0", "0x1002", "0x120000")  # MI300
    put_on_bus(root, "0000:00:1f.0", "0x8086", "0x060100")  # a bridge
    put_on_bus(root, "0000:03:00.0", "0x1af4", "0x030000")  # a virtual machine's screen
    machine = read_machine({}, root=root, system="Linux")
    assert machine.pci_count == 5
    assert [(each.address, each.accelerator, each.driver) for each in machine.gpus_on_bus] == [
        ("0000:01:00.0", "cuda", "nouveau"),
        ("0000:02:00.0", "rocm", None),
    ]


def test_a_machine_without_sysfs_has_no_bus_to_look_at(root) -> None:
    machine = read_machine({}, root=root, system="Linux")
    assert machine.pci_count is None
    assert not machine.gpus


def test_device_files_are_found_with_whether_this_user_may_use_them(root, monkeypatch) -> None:
    for path in ("nvidia0", "nvidiactl", "nvidia-caps/cap1", "kfd", "dri/renderD128", "dri/card0"):
        write(root, f"dev/{path}")
    monkeypatch.setattr(os, "access", lambda path, mode: path.name != "kfd")
    files = read_machine({}, root=root, system="Linux").device_files
    assert set(files) == {
        DeviceFile("/dev/nvidia0"), DeviceFile("/dev/nvidiactl"), DeviceFile("/dev/dri/renderD128"),
        DeviceFile("/dev/kfd", is_accessible=False),
    }  # fmt: skip


def test_amds_gpus_are_read_off_their_kernel_driver(root) -> None:
    nodes = "sys/class/kfd/kfd/topology/nodes"
    write(root, f"{nodes}/0/properties", "cpu_cores_count 64\ngfx_target_version 0\n")
    write(root, f"{nodes}/1/properties", "gfx_target_version 90010\nunique_id 170\n")
    write(root, f"{nodes}/2/properties", "gfx_target_version 110003\n")
    write(root, f"{nodes}/2/name", "navi\n")
    gpus = read_machine({}, root=root, system="Linux").driver("rocm").gpus
    assert [(each.architecture, each.name) for each in gpus] == [
        ("gfx90a", "gfx90a"), ("gfx1103", "navi"),
    ]  # fmt: skip
    assert gpus[0].uuid == "GPU-00000000000000aa"


def test_intels_gpus_are_those_on_the_bus_that_are_driven(root) -> None:
    put_on_bus(root, "0000:03:00.0", "0x8086", "0x030000", "xe")
    put_on_bus(root, "0000:04:00.0", "0x8086", "0x038000")
    gpus = read_machine({}, root=root, system="Linux").driver("xpu").gpus
    assert [each.name for each in gpus] == ["Intel GPU at 0000:03:00.0"]


VERSION = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build\nGCC"


def test_nvidias_kernel_module_tells_its_version(root) -> None:
    write(root, "proc/driver/nvidia/version", VERSION)
    assert read_machine({}, root=root, system="Linux").nvidia_kernel == "570.86.15"


def test_wsl_and_the_distribution_are_told_by_their_files(root) -> None:
    write(root, "proc/version", "Linux version 5.15.153.1-microsoft-standard-WSL2")
    write(root, "etc/os-release", 'NAME="Ubuntu"\nID="ubuntu"\nID_LIKE=debian\n')
    machine = read_machine({}, root=root, system="Linux")
    assert (machine.is_wsl, machine.distribution) == (True, "ubuntu")


@pytest.mark.parametrize(
    ("path", "text", "variables"),
    [
        (".dockerenv", "", {}),
        ("run/.containerenv", "", {}),
        ("proc/1/cgroup", "0::/kubepods/besteffort/pod1", {}),
        ("etc/hostname", "", {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}),
    ],
)
def test_a_container_is_told_by_what_its_engine_leaves_there(root, path, text, variables) -> None:
    assert read_machine({}, root=root, system="Linux").container is None
    write(root, path, text)
    assert read_machine(variables, root=root, system="Linux").container


def test_only_variables_about_gpus_are_kept(root) -> None:
    given = {"CUDA_VISIBLE_DEVICES": "", "PASSWORD": "secret", "UNIDEV_SIMULATE": "2"}
    kept = read_machine(given, root=root, system="Linux").environment
    assert kept == {"CUDA_VISIBLE_DEVICES": "", "UNIDEV_SIMULATE": "2"}


def test_the_real_machine_can_be_read() -> None:
    machine = read_machine(os.environ)
    assert machine.system
    assert machine.drivers[0].accelerator == "cuda"


def test_a_pynvml_that_raises_what_it_should_not_is_one_finding(root, monkeypatch) -> None:
    class Other:  # another module of that name, without what ours calls
        pass

    def fails() -> None:
        raise OSError("libnvidia-ml.so.1: file too short")

    for imported, reason in ((Other, "AttributeError"), (fails, "OSError: libnvidia-ml.so.1")):
        monkeypatch.setattr(machine_module, "import_nvml", imported)
        driver = read_machine({}, root=root).drivers[0]
        assert driver.state == FAILS
        assert reason in driver.message
