"""There is a GPU, but its driver is missing or does not answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unidev.doctor.facts import Finding, Remedy
from unidev.doctor.hardware_causes import has_gpu
from unidev.doctor.remedies import CONTAINER_PAGES, DRIVER_PAGES, install_driver, start_container
from unidev.system.facts import (
    FAILS,
    MAKERS,
    MISMATCH,
    NO_ANSWER,
    NO_LIBRARY,
    NO_PERMISSION,
    NOT_ASKED,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from unidev.doctor.facts import Case
    from unidev.system.facts import Driver, Machine, UnreadableGpu

_WSL_PAGE = "https://docs.nvidia.com/cuda/wsl-user-guide/index.html"
_NOUVEAU_PAGE = "https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/index.html"
_XID_PAGE = "https://docs.nvidia.com/deploy/xid-errors/index.html"
_FILES = {"cuda": ("/dev/nvidia",), "rocm": ("/dev/kfd", "/dev/dri/"), "xpu": ("/dev/dri/",)}
_KERNEL_DRIVERS = {"cuda": ("nvidia",), "rocm": ("amdgpu",), "xpu": ("i915", "xe")}


def driver(case: Case) -> Iterator[Finding]:
    """The first problem between the bus and the driver's own library."""
    machine = case.machine
    if case.is_seen_by_frameworks_alone:
        return  # such as in a container with CUDA's library but without NVML
    found = [_first(machine, each) for each in _concerned(machine)]
    if not has_gpu(machine, "cuda") and machine.driver("cuda").state in (FAILS, NO_ANSWER):
        found.append(_nvidia_library(machine, "cuda"))  # it is there, though there is no GPU for it
    yield from filter(None, found)


def _first(machine: Machine, accelerator: str) -> Finding | None:
    if machine.is_wsl:
        return _wsl(machine)
    return (
        _reserved(machine, accelerator)
        or _nouveau(machine, accelerator)
        or _no_files(machine, accelerator)
        or _no_permission(machine, accelerator)
        or _no_kernel_driver(machine, accelerator)
        or _nvidia_library(machine, accelerator)
    )


def _concerned(machine: Machine) -> list[str]:
    """The vendor to check: integrated graphics matter only if there is no better GPU."""
    for accelerator in ("cuda", "rocm", "xpu"):
        if has_gpu(machine, accelerator):
            found = machine.driver(accelerator)
            works = bool(found.gpus) and _reached(machine, accelerator)
            # Each GPU that cannot be read has a finding of its own.
            return [] if works or found.unreadable else [accelerator]
    return []


def _reached(machine: Machine, accelerator: str) -> bool:
    """Whether programs can reach the GPUs; the kernel lists AMD's and Intel's even if not."""
    if accelerator == "cuda":
        return True
    return all(
        any(each.is_accessible for each in machine.files(prefix)) for prefix in _FILES[accelerator]
    )


def _wsl(machine: Machine) -> Finding | None:
    if machine.gpus:
        return None
    has_file = bool(machine.files("/dev/dxg"))
    return Finding(
        "wsl",
        "Windows does not share its GPU with this WSL.",
        (f"/dev/dxg {'exists' if has_file else 'does not exist'}",
         *_answer(machine.driver("cuda"))),
        (
            Remedy("Update WSL from Windows; only WSL 2 supports GPUs.", "wsl --update"),
            Remedy("Install NVIDIA's driver in Windows, but none inside WSL: it would hide the "
                   "one that Windows provides."),
        ),
        _WSL_PAGE,
    )  # fmt: skip


def _reserved(machine: Machine, accelerator: str) -> Finding | None:
    on_bus = machine.on_bus(accelerator)
    if not on_bus or any(each.driver != "vfio-pci" for each in on_bus):
        return None
    return Finding(
        "reserved",
        "The GPU is reserved for a virtual machine.",
        tuple(f"{each.address}: kernel driver vfio-pci" for each in on_bus),
        (Remedy(f"Run in that virtual machine, or return the GPU to {_kernel(accelerator)}."),),
    )


def _nouveau(machine: Machine, accelerator: str) -> Finding | None:
    taken = [each for each in machine.on_bus(accelerator) if each.driver == "nouveau"]
    if not taken or machine.driver(accelerator).gpus:
        return None
    return Finding(
        "nouveau",
        "The GPU uses the nouveau driver, which does not support CUDA.",
        tuple(f"{each.address}: kernel driver nouveau" for each in taken),
        (install_driver(machine, "cuda"),),
        _NOUVEAU_PAGE,
    )


def _no_files(machine: Machine, accelerator: str) -> Finding | None:
    absent = [prefix for prefix in _FILES[accelerator] if not machine.files(prefix)]
    if not absent or not (_is_loaded(machine, accelerator) or machine.driver(accelerator).gpus):
        return None
    evidence = (
        f"the kernel has loaded {MAKERS[accelerator]}'s driver"
        + (f" {machine.nvidia_kernel}" if accelerator == "cuda" and machine.nvidia_kernel else ""),
        f"there is no file {' or '.join(each + '*' for each in absent)}",
    )
    if machine.container:
        requested = machine.environment.get("NVIDIA_VISIBLE_DEVICES")
        more = [f"NVIDIA_VISIBLE_DEVICES={requested}"] if requested is not None else []
        return Finding(
            "container",
            "This container was started without the GPU's device files.",
            (f"this is a container ({machine.container})", *evidence, *more),
            start_container(accelerator),
            CONTAINER_PAGES[accelerator],
        )
    remedy = Remedy("Create them with NVIDIA's helper.", "sudo nvidia-modprobe -u -c=0")
    if accelerator != "cuda":
        remedy = Remedy("Reload the driver.", f"sudo modprobe {_kernel(accelerator)}")
    return Finding(
        "no-device-files", "The GPU's device files are missing.", evidence, (remedy,),
        DRIVER_PAGES[accelerator],
    )  # fmt: skip


def _no_permission(machine: Machine, accelerator: str) -> Finding | None:
    shut = [
        each
        for prefix in _FILES[accelerator]
        for each in machine.files(prefix)
        if not each.is_accessible
    ]
    if not shut or (accelerator == "cuda" and machine.driver("cuda").gpus):
        return None
    command = 'sudo usermod -aG render,video "$USER"'
    remedy = Remedy("Give this user access, then log in again.", command)
    if machine.container:
        remedy = start_container(accelerator)[0]
    elif accelerator == "cuda":
        remedy = Remedy("Give all users access.", "sudo chmod 0666 /dev/nvidia*")
    return Finding(
        "no-permission",
        "This user has no permission to use the GPU's device files.",
        tuple(f"no permission to read and write {each.path}" for each in shut),
        (remedy,),
        DRIVER_PAGES[accelerator],
    )


def _no_kernel_driver(machine: Machine, accelerator: str) -> Finding | None:
    found, maker = machine.driver(accelerator), MAKERS[accelerator]
    if found.gpus or _is_loaded(machine, accelerator):
        return None
    addresses = [each.address for each in machine.on_bus(accelerator)]
    return Finding(
        "no-driver",
        f"{maker}'s driver is not installed or not loaded.",
        (*(f"{each}: {maker} GPU without {maker}'s driver" for each in addresses), *_answer(found)),
        (install_driver(machine, accelerator),),
        DRIVER_PAGES[accelerator],
    )


def _nvidia_library(machine: Machine, accelerator: str) -> Finding | None:
    found = machine.driver("cuda")
    if accelerator != "cuda" or found.gpus:
        return None
    if found.state == NOT_ASKED:
        return Finding(
            "driver-fails",
            "NVIDIA's driver cannot be queried.",
            _answer(found),
            (Remedy("Install the package that queries it.", "pip install nvidia-ml-py"),),
        )
    loaded = (f"kernel module {machine.nvidia_kernel}",) if machine.nvidia_kernel else ()
    if found.state == MISMATCH:
        return Finding(
            "driver-mismatch",
            "NVIDIA's driver was updated, but the old version is still loaded.",
            (*_answer(found), *loaded),
            (Remedy("Restart the machine.", "sudo reboot"),),
        )
    if found.state == NO_LIBRARY and machine.container:
        return Finding(
            "container",
            "This container was started without the libraries of NVIDIA's driver.",
            (f"this is a container ({machine.container})", *_answer(found), *loaded),
            start_container("cuda"),
            CONTAINER_PAGES["cuda"],
        )
    return Finding(
        "driver-fails",
        "NVIDIA's driver does not answer.",
        (*_answer(found), *loaded),
        (Remedy("See what its own tool reports.", "nvidia-smi"), install_driver(machine, "cuda")),
        DRIVER_PAGES["cuda"],
    )


def single_gpus(case: Case) -> Iterator[Finding]:
    """GPUs that the driver counts but does not describe: lost, failed, or not for this process."""
    driver = case.machine.driver("cuda")
    shut = [each for each in driver.unreadable if each.state == NO_PERMISSION]
    lost = [each for each in driver.unreadable if each.state != NO_PERMISSION]
    if lost:
        yield Finding(
            "gpu-lost",
            f"{_named(lost)} no longer {'answers' if len(lost) == 1 else 'answer'} the driver.",
            _messages(lost),
            (
                Remedy("See the kernel's messages: NVIDIA explains their Xid numbers.",
                       "sudo dmesg | grep -i xid"),
                Remedy("Restart the machine; a GPU that is lost again is broken, or badly seated."),
            ),
            _XID_PAGE,
        )  # fmt: skip
    if shut:
        has_others = bool(driver.gpus) or case.is_seen("cuda")
        yield Finding(
            "gpu-not-permitted",
            f"This process has no permission to use {_named(shut)}.",
            _messages(shut),
            (
                Remedy("Request more GPUs from the scheduler or container engine that started this "
                       "process."),
            ),
            is_blocking=not has_others,
        )  # fmt: skip


def _named(gpus: Sequence[UnreadableGpu]) -> str:
    numbers = [str(each.index) for each in gpus]
    if len(numbers) == 1:
        return f"GPU {numbers[0]}"
    return f"GPUs {', '.join(numbers[:-1])} and {numbers[-1]}"


def _messages(gpus: Sequence[UnreadableGpu]) -> tuple[str, ...]:
    return tuple(f"NVML, of GPU {each.index}: {each.message}" for each in gpus)


def _answer(driver: Driver) -> tuple[str, ...]:
    if driver.message:
        return (f"NVML: {driver.message}",)
    return ("NVML finds no GPU",) if driver.accelerator == "cuda" and driver.state != FAILS else ()


def _is_loaded(machine: Machine, accelerator: str) -> bool:
    """Whether the kernel has loaded the vendor's own driver."""
    if accelerator == "cuda" and machine.nvidia_kernel is not None:
        return True
    return any(each.driver in _KERNEL_DRIVERS[accelerator] for each in machine.on_bus(accelerator))


def _kernel(accelerator: str) -> str:
    return _KERNEL_DRIVERS[accelerator][0]
