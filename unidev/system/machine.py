"""Reads the machine without any framework: its bus, device files, drivers and environment."""

from __future__ import annotations

import functools
import os
import platform
import re
from pathlib import Path
from typing import TYPE_CHECKING

from unidev.system.facts import FAILS, VENDORS, WORKS, DeviceFile, Driver, Gpu, Machine, PciDevice
from unidev.system.nvml import WAIT_S, ask_driver, ask_in_time, ask_nvml, import_nvml, named_gpus
from unidev.system.processes import describe_process
from unidev.system.settings import DETAILS, SIMULATE
from unidev.system.visible import visible_count

if TYPE_CHECKING:
    from collections.abc import Mapping

VARIABLES = (
    "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
    "HSA_OVERRIDE_GFX_VERSION", "ONEAPI_DEVICE_SELECTOR", "ZE_AFFINITY_MASK",
    "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES", SIMULATE, *DETAILS,
)  # fmt: skip
"""The environment variables that affect which GPUs are visible."""

_ROOT = Path("/")
_DISPLAY, _ACCELERATOR = "0x03", "0x12"
"""PCI classes of GPUs; AMD's MI300 reports itself as a processing accelerator."""
_DEVICE_FILES = ("nvidia*", "kfd", "dri/renderD*", "dxg")


def read_machine(
    environment: Mapping[str, str],
    *,
    nvidia: Driver | None = None,
    wait_s: float = WAIT_S,
    root: Path = _ROOT,
    system: str | None = None,
) -> Machine:
    """Read the files under ``root``, and within ``wait_s`` NVIDIA's driver, unless given."""
    system = platform.system() if system is None else system
    if nvidia is None:
        nvidia = ask_in_time(lambda: ask_nvml(import_nvml(), describe_process), wait_s)
    bus = root / "sys/bus/pci/devices"
    on_bus = _pci(bus)
    return Machine(
        system=system,
        distribution=_distribution(root),
        is_wsl="microsoft" in _read(root / "proc/version").lower(),
        container=_container(root, environment),
        pci_count=len(list(bus.iterdir())) if bus.is_dir() else None,
        gpus_on_bus=on_bus,
        nvidia_kernel=_nvidia_kernel(root),
        device_files=_device_files(root),
        drivers=(nvidia, *_other_drivers(root, on_bus, system)),
        environment=relevant(environment),
    )


def visible_gpus(accelerator: str) -> int | None:
    """The number of ``cuda`` or ``rocm`` GPUs that this process may use, by their driver alone.

    For ``Backend.device_count`` of a framework that would start its runtime to count them, after
    which a forked process hangs. No context is made, no runtime started: CUDA's GPUs are counted by
    nvidia-ml-py, or else by the driver's files, ROCm's by its kernel driver's. The environment
    (``CUDA_VISIBLE_DEVICES`` and the like) is read at each call as CUDA and ROCm read it once; the
    driver answers once in a process. A divided GPU (MIG) leaves one.

    Returns None if it is unknown: another accelerator, a driver that fails, Windows without
    nvidia-ml-py.
    """
    found = _driver_counts(accelerator)
    return None if found is None else visible_count(os.environ, accelerator, *found)


@functools.cache
def _driver_counts(accelerator: str) -> tuple[list[Gpu], int] | None:
    """The GPUs that the driver describes, and how many more it counts."""
    if accelerator == "rocm":
        return list(_amd(_ROOT).gpus), 0
    if accelerator != "cuda":
        return None
    by_nvml = ask_driver(named_gpus)
    return _nvidia_files(_ROOT, platform.system()) if by_nvml is None else by_nvml


def _nvidia_files(root: Path, system: str) -> tuple[list[Gpu], int] | None:
    """As the driver's files show them: one folder a GPU, in the order of the bus."""
    if system == "Darwin":
        return [], 0
    folders = sorted((root / "proc/driver/nvidia/gpus").glob("*"))
    if not folders and (system != "Linux" or (root / "dev/dxg").exists()):
        return None  # Windows, also under WSL, has no such files
    gpus = []
    for index, folder in enumerate(folders):
        found = re.search(r"^GPU UUID:\s*(GPU-\S+)", _read(folder / "information"), re.MULTILINE)
        gpus.append(Gpu("cuda", index, folder.name, found and found[1]))
    return gpus, 0


def relevant(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment variables that affect GPUs."""
    return {name: environment[name] for name in VARIABLES if name in environment}


def _other_drivers(root: Path, on_bus: tuple[PciDevice, ...], system: str) -> list[Driver]:
    drivers = []
    if any(each.accelerator == "rocm" for each in on_bus) or (root / "sys/class/kfd").exists():
        drivers.append(_amd(root))
    if any(each.accelerator == "xpu" for each in on_bus):
        drivers.append(_intel(on_bus))
    if system == "Darwin" and platform.machine() == "arm64":
        drivers.append(Driver("mps", WORKS, gpus=(Gpu("mps", 0, "Apple GPU"),)))
    return drivers


def _pci(bus: Path) -> tuple[PciDevice, ...]:
    found = []
    for folder in sorted(bus.glob("*")):
        vendor = _read(folder / "vendor")
        if vendor in VENDORS and _read(folder / "class").startswith((_DISPLAY, _ACCELERATOR)):
            driver = folder / "driver"
            found.append(
                PciDevice(folder.name, vendor, driver.resolve().name if driver.exists() else None)
            )
    return tuple(found)


def _amd(root: Path) -> Driver:
    """The GPUs among the compute nodes of AMD's kernel driver."""
    gpus: list[Gpu] = []
    for folder in sorted((root / "sys/class/kfd/kfd/topology/nodes").glob("*"), key=_number):
        properties = dict(
            line.split(" ", 1) for line in _read(folder / "properties").splitlines() if " " in line
        )
        version = int(properties.get("gfx_target_version", "0"))
        if version:
            gfx = f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}"
            name = _read(folder / "name") or gfx
            uuid = f"GPU-{int(properties.get('unique_id', '0')):016x}"
            gpus.append(Gpu("rocm", len(gpus), name, uuid, gfx))
    return Driver("rocm", WORKS if gpus else FAILS, gpus=tuple(gpus))


def _number(path: Path) -> int:
    return int(path.name) if path.name.isdigit() else -1


def _intel(on_bus: tuple[PciDevice, ...]) -> Driver:
    driven = [
        each for each in on_bus if each.accelerator == "xpu" and each.driver in ("i915", "xe")
    ]
    gpus = tuple(
        Gpu("xpu", index, f"Intel GPU at {each.address}") for index, each in enumerate(driven)
    )
    return Driver("xpu", WORKS if gpus else FAILS, gpus=gpus)


def _device_files(root: Path) -> tuple[DeviceFile, ...]:
    found = sorted(path for pattern in _DEVICE_FILES for path in (root / "dev").glob(pattern))
    return tuple(
        DeviceFile("/" + path.relative_to(root).as_posix(), os.access(path, os.R_OK | os.W_OK))
        for path in found
        if not path.is_dir()  # nvidia-caps
    )


def _nvidia_kernel(root: Path) -> str | None:
    for line in _read(root / "proc/driver/nvidia/version").splitlines():
        if line.startswith("NVRM version:"):
            numbers = [word for word in line.split() if word[0].isdigit() and "." in word]
            return numbers[0] if numbers else line.partition(":")[2].strip()
    return None


def _container(root: Path, environment: Mapping[str, str]) -> str | None:
    for path in (".dockerenv", "run/.containerenv"):
        if (root / path).exists():
            return f"/{path}"
    if environment.get("KUBERNETES_SERVICE_HOST"):
        return "KUBERNETES_SERVICE_HOST"
    groups = _read(root / "proc/1/cgroup")
    names = ("docker", "kubepods", "containerd", "lxc")
    return next((f"/proc/1/cgroup: {name}" for name in names if name in groups), None)


def _distribution(root: Path) -> str | None:
    found = re.search("^ID=(.*)$", _read(root / "etc/os-release"), re.MULTILINE)
    return found and found[1].strip('"')


def cpu_mhz(root: Path = _ROOT) -> int | None:
    """The CPU's highest clock, or its clock of now; None where the system reports neither."""
    most = _read(root / "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq").strip()
    if most.isdecimal():
        return int(most) // 1000
    # A virtual machine has no governor of its own, and shows one clock.
    lines = re.findall(r"^cpu MHz\s*: ([\d.]+)$", _read(root / "proc/cpuinfo"), re.MULTILINE)
    return round(max(map(float, lines))) if lines else None


def _read(path: Path) -> str:
    """The content of a file; empty if it does not exist or is not readable."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
