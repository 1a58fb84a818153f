"""Machines that are made up, for the tests of the doctor."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from unidev.contract.installation import Build, Wheel
from unidev.doctor.diagnosis import diagnose
from unidev.doctor.facts import Case, Finding, Framework
from unidev.system.facts import (
    NO_LIBRARY,
    NOT_LOADED,
    DeviceFile,
    Driver,
    Gpu,
    GpuProcess,
    Machine,
    PciDevice,
)

GIB = 2**30
A, B = "GPU-aaaaaaaa-0000-0000-0000-000000000000", "GPU-bbbbbbbb-0000-0000-0000-000000000000"

NVIDIA_FILES = tuple(DeviceFile(f"/dev/nvidia{end}") for end in ("-uvm", "0", "1", "ctl"))
ON_BUS = (
    PciDevice("0000:17:00.0", "0x10de", "nvidia"),
    PciDevice("0000:65:00.0", "0x10de", "nvidia"),
)


def gpu(index: int = 0, **changes: Any) -> Gpu:
    given = Gpu(
        "cuda", index, "NVIDIA H200", (A, B)[index], "sm_90", used_bytes=GIB, total_bytes=140 * GIB
    )
    return replace(given, **changes)


def divided(*uuids: str, index: int = 0, **changes: Any) -> Gpu:
    """A GPU in instances (MIG) of 20 GiB."""
    parts = tuple(
        replace(
            gpu(index, uuid=uuid, name="NVIDIA H200 MIG 1g.18gb", total_bytes=20 * GIB),
            parent=f"GPU {index}, NVIDIA H200",
            **changes,
        )
        for uuid in uuids
    )
    return gpu(index, parts=parts)


def nvidia(*gpus: Gpu, **changes: Any) -> Driver:
    given = Driver("cuda", "works", version="570.86.15", cuda_version="12.8", gpus=gpus)
    return replace(given, **changes)


WORKING = Machine(
    distribution="ubuntu",
    pci_count=40,
    gpus_on_bus=ON_BUS,
    nvidia_kernel="570.86.15",
    device_files=NVIDIA_FILES,
    drivers=(nvidia(gpu(0), gpu(1)),),
)
"""Linux, two NVIDIA GPUs, and all that they need."""

EMPTY = Machine(pci_count=6, drivers=(Driver("cuda", NO_LIBRARY, "NVML Shared Library Not Found"),))
"""No GPU, and nothing that would speak for one."""

UNDRIVEN = replace(
    WORKING,
    gpus_on_bus=tuple(replace(each, driver=None) for each in ON_BUS),
    nvidia_kernel=None,
    device_files=(),
    drivers=(Driver("cuda", NOT_LOADED, "Driver Not Loaded"),),
)
"""The GPUs are on the bus, and nobody drives them."""

AMD = Machine(
    pci_count=40,
    gpus_on_bus=(PciDevice("0000:03:00.0", "0x1002", "amdgpu"),),
    device_files=(DeviceFile("/dev/dri/renderD128"), DeviceFile("/dev/kfd")),
    drivers=(
        Driver("cuda", NO_LIBRARY),
        Driver("rocm", "works", gpus=(Gpu("rocm", 0, "gfx942", "GPU-00000000000000aa", "gfx942"),)),
    ),
)
INTEL = Machine(
    pci_count=40,
    gpus_on_bus=(PciDevice("0000:03:00.0", "0x8086", "xe"),),
    device_files=(DeviceFile("/dev/dri/renderD128"),),
    drivers=(
        Driver("cuda", NO_LIBRARY),
        Driver("xpu", "works", gpus=(Gpu("xpu", 0, "Intel GPU at 0000:03:00.0"),)),
    ),
)

TAKEN = GpuProcess(4242, "python", 139 * GIB)
FULL = gpu(0, used_bytes=139 * GIB, processes=(GpuProcess(7, "Xorg", GIB // 8), TAKEN))
"""A GPU whose memory another process has taken."""

WHEELS = (
    Wheel("cuda", "13.0", "pip install torch-cu130"),
    Wheel("cuda", "12.6", "pip install torch-cu126"),
    Wheel("rocm", "7.2", "pip install torch-rocm7.2"),
)
FOR_CUDA = Build(
    accelerator="cuda",
    version="12.6",
    architectures=("sm_80", "sm_90"),
    wheels=WHEELS,
    page="https://pytorch.org/get-started/locally/",
)
FOR_THE_CPU = replace(FOR_CUDA, accelerator=None, version=None, architectures=())
FOR_ROCM = replace(FOR_CUDA, accelerator="rocm", version="7.2", architectures=("gfx90a", "gfx942"))
NUMPY = Framework("numpy", "numpy", version="2.4.6", build=Build(accelerator=None), gpus_seen=0)


def torch(gpus_seen: int = 2, build: Build = FOR_CUDA, **changes: Any) -> Framework:
    given = Framework("torch", "torch", version="2.13.0", build=build, gpus_seen=gpus_seen)
    return replace(given, **changes)


def tensorflow(gpus_seen: int = 2, build: Build = FOR_CUDA, **changes: Any) -> Framework:
    return torch(gpus_seen, build, backend="tensorflow", framework="tensorflow", **changes)


def case(machine: Machine = WORKING, *frameworks: Framework, **changes: Any) -> Case:
    return Case(machine, frameworks or (torch(),), **changes)


def found(machine: Machine = WORKING, *frameworks: Framework, **changes: Any) -> list[Finding]:
    return diagnose(case(machine, *frameworks, **changes))


def causes(*given: Any, **changes: Any) -> list[str]:
    return [each.cause for each in found(*given, **changes)]


def everything(finding: Finding) -> str:
    """All that a finding says."""
    remedies = [part for each in finding.remedies for part in (each.text, each.command or "")]
    return "\n".join([finding.title, *finding.evidence, *remedies, finding.link or ""])


def with_environment(machine: Machine, **variables: str) -> Machine:
    return replace(machine, environment=variables)


def with_gpus(*gpus: Gpu, **changes: Any) -> Machine:
    return replace(WORKING, drivers=(nvidia(*gpus, **changes),))
