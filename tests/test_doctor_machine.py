"""Reading a machine: its files, its driver, its processes; all of them made up."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from unidev.hardware import machine as machine_module
from unidev.hardware.facts import MISMATCH, NO_LIBRARY, NOT_ASKED, WORKS, DeviceFile, GpuProcess
from unidev.hardware.machine import read_machine
from unidev.hardware.nvml import ask_in_time, ask_nvml, import_nvml
from unidev.hardware.processes import process_told, this_process

if TYPE_CHECKING:
    from pathlib import Path


class NvmlError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(f"error {value}")
        self.value = value


class FakeNvml:
    """The part of pynvml that is used, of a machine with one H200 (and MIG, if asked for)."""

    NVMLError = NvmlError
    NVML_ERROR_LIBRARY_NOT_FOUND = 12
    NVML_ERROR_DRIVER_NOT_LOADED = 9
    NVML_ERROR_NO_PERMISSION = 4
    NVML_ERROR_LIB_RM_VERSION_MISMATCH = 18

    def __init__(self, *, init: int | None = None, count: int | None = None, mig: int = 0) -> None:
        self.init, self.count, self.mig = init, count, mig
        self.is_open = False

    def nvmlInit(self) -> None:
        if self.init is not None:
            raise NvmlError(self.init)
        self.is_open = True

    def nvmlShutdown(self) -> None:
        assert self.is_open
        self.is_open = False

    def nvmlSystemGetDriverVersion(self) -> bytes:
        return b"570.86.15"  # bytes, in early versions

    def nvmlSystemGetCudaDriverVersion_v2(self) -> int:
        return 12080

    def nvmlDeviceGetCount(self) -> int:
        if self.count is not None:
            raise NvmlError(self.count)
        return 1

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:
        return f"handle {index}"

    def nvmlDeviceGetName(self, handle: str) -> str:
        return "NVIDIA H200"

    def nvmlDeviceGetUUID(self, handle: str) -> str:
        return "MIG-1" if handle == "part 1" else "GPU-1"

    def nvmlDeviceGetCudaComputeCapability(self, handle: str) -> tuple[int, int]:
        return 9, 0

    def nvmlDeviceGetMemoryInfo(self, handle: str) -> Any:
        return SimpleNamespace(used=3, free=7, total=10)

    def nvmlDeviceGetComputeRunningProcesses(self, handle: str) -> list[Any]:
        return [SimpleNamespace(pid=1, usedGpuMemory=2), SimpleNamespace(pid=2, usedGpuMemory=None)]

    def nvmlSystemGetProcessName(self, pid: int) -> str:
        if pid == 2:
            raise NvmlError(6)
        return "from the driver"

    def nvmlDeviceGetMigMode(self, handle: str) -> list[int]:
        if not self.mig:
            raise NvmlError(3)
        return [1, 1]

    def nvmlDeviceGetMaxMigDeviceCount(self, handle: str) -> int:
        return 3

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: str, index: int) -> str:
        if index != 1:
            raise NvmlError(6)
        return f"part {index}"


def nobody(_pid: int) -> tuple[None, tuple[str, ...]]:
    return None, ()


def test_the_driver_is_asked_and_let_go_of() -> None:
    nvml = FakeNvml()
    told = ask_nvml(nvml, nobody)
    assert (told.state, told.version, told.cuda_version) == (WORKS, "570.86.15", "12.8")
    (gpu,) = told.gpus
    assert (gpu.name, gpu.uuid, gpu.architecture) == ("NVIDIA H200", "GPU-1", "sm_90")
    assert (gpu.used_bytes, gpu.total_bytes, gpu.mig_uuids) == (3, 10, ())
    assert gpu.processes == (GpuProcess(1, "from the driver", 2), GpuProcess(2, None, None))
    assert not nvml.is_open


def test_a_process_that_we_can_see_is_named_as_we_see_it() -> None:
    told = ask_nvml(FakeNvml(), lambda pid: (f"python {pid}", ("PyTorch",)))
    assert told.gpus[0].processes[0] == GpuProcess(1, "python 1", 2, ("PyTorch",))


def test_parts_of_a_gpu_are_known_by_their_uuids() -> None:
    assert ask_nvml(FakeNvml(mig=1), nobody).gpus[0].mig_uuids == ("MIG-1",)


@pytest.mark.parametrize(
    ("error", "state"),
    [(12, NO_LIBRARY), (9, "not loaded"), (4, "no permission"), (18, MISMATCH), (999, "fails")],
)
def test_what_nvml_says_at_its_start_is_told_apart(error, state) -> None:
    told = ask_nvml(FakeNvml(init=error), nobody)
    assert (told.state, told.message, told.gpus) == (state, f"error {error}", ())


def test_a_driver_that_fails_later_is_let_go_of_too() -> None:
    nvml = FakeNvml(count=15)
    assert ask_nvml(nvml, nobody).state == "fails"
    assert not nvml.is_open


def test_without_nvidia_ml_py_nobody_is_asked() -> None:
    assert ask_nvml(None, nobody).state == NOT_ASKED


def test_a_driver_that_never_answers_is_waited_for_only_so_long() -> None:
    never = threading.Event()
    told = ask_in_time(lambda: never.wait(60) and None, 0.05)
    never.set()
    assert (told.state, told.message) == ("no answer", "no answer within 0.05 s")
    assert ask_in_time(lambda: ask_nvml(None, nobody), 60).state == NOT_ASKED


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


# -- processes -------------------------------------------------------------------------------------


def put_process(proc: Path, pid: int, words: str, *files: str) -> None:
    write(proc, f"{pid}/cmdline", words.replace(" ", "\0"))
    (proc / f"{pid}/fd").mkdir()
    for number, file in enumerate(files):
        (proc / f"{pid}/fd/{number}").symlink_to(file)


def test_a_fork_is_known_by_the_words_that_it_shares_with_its_parent(tmp_path) -> None:
    put_process(tmp_path, os.getppid(), "python train.py", "/dev/null", "/dev/nvidia-uvm")
    put_process(tmp_path, os.getpid(), "python train.py", "/dev/nvidia0", "/dev/nvidia-uvm")
    process = this_process(tmp_path)
    assert process.is_forked
    assert process.holds_gpu == process.parent_holds_gpu == ("/dev/nvidia-uvm",)


def test_a_process_that_was_started_anew_is_no_fork(tmp_path) -> None:
    put_process(tmp_path, os.getppid(), "python train.py", "/dev/nvidia-uvm")
    put_process(tmp_path, os.getpid(), "python --multiprocessing-fork", "/dev/nvidiactl")
    process = this_process(tmp_path)
    assert (process.is_forked, process.holds_gpu) == (False, ())


def test_a_system_without_proc_knows_of_no_forks(tmp_path) -> None:
    assert this_process(tmp_path / "nothing").is_forked is False


def test_a_real_fork_is_known_and_a_real_spawn_is_none() -> None:
    program = """
import multiprocessing, sys
from unidev.hardware.processes import this_process
def told(queue): queue.put(this_process().is_forked)
if __name__ == "__main__":
    for method in ("fork", "spawn"):
        context = multiprocessing.get_context(method)
        queue = context.SimpleQueue()
        child = context.Process(target=told, args=(queue,))
        child.start()
        print(method, queue.get())
        child.join()
"""
    from tempfile import NamedTemporaryFile

    with NamedTemporaryFile("w", suffix=".py") as file:
        file.write(program)
        file.flush()
        done = subprocess.run(
            [sys.executable, file.name], capture_output=True, text=True, check=True, timeout=60
        )
    assert done.stdout.splitlines() == ["fork True", "spawn False"]


def test_what_a_process_has_loaded_is_read_off_its_memory(tmp_path) -> None:
    write(tmp_path, "9/cmdline", "python\0train.py\0--epochs\0three\0")
    write(
        tmp_path, "9/maps", "7f00 /a/libtorch_cuda.so\n7f01 /b/libtensorflow_cc.so.2\n7f02 [heap]"
    )
    assert process_told(9, tmp_path) == ("python train.py --epochs", ("PyTorch", "TensorFlow"))
    assert process_told(10, tmp_path) == (None, ())
