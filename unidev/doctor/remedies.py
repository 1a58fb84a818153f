"""Remedies for causes: a sentence, and the exact command if there is one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unidev.doctor.facts import Remedy
from unidev.system.facts import MAKERS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from unidev.contract.installation import Build, Wheel
    from unidev.system.facts import Machine

DRIVER_PAGES = {
    "cuda": "https://www.nvidia.com/en-us/drivers/",
    "rocm": "https://rocm.docs.amd.com/projects/install-on-linux/en/latest/",
    "xpu": "https://dgpu-docs.intel.com/driver/installation.html",
}
_DRIVER_COMMANDS = {
    "ubuntu": "sudo ubuntu-drivers install && sudo reboot",
    "debian": "sudo apt install nvidia-driver && sudo reboot",
    "arch": "sudo pacman -S nvidia && sudo reboot",
}
"""Each distribution's own command to install NVIDIA's driver."""

CONTAINER_PAGES = {
    "cuda": "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/",
    "rocm": "https://rocm.docs.amd.com/projects/install-on-linux/en/latest/how-to/docker.html",
    "xpu": "https://dgpu-docs.intel.com/driver/installation.html",
}
_CONTAINER_OPTIONS = {
    "cuda": "--gpus all",
    "rocm": "--device=/dev/kfd --device=/dev/dri --group-add video --group-add render",
    "xpu": "--device=/dev/dri --group-add render",
}


def install_driver(machine: Machine, accelerator: str) -> tuple[Remedy, ...]:
    """Install, or reinstall, the driver for that vendor's GPUs."""
    text = f"Install {MAKERS[accelerator]}'s driver and restart."
    if accelerator == "cuda" and not machine.container:
        return (Remedy(text, _DRIVER_COMMANDS.get(machine.distribution or "")),)
    return (
        Remedy(f"{text[:-1]} (on the host, not in the container)." if machine.container else text),
    )


def start_container(accelerator: str) -> tuple[Remedy, ...]:
    """Start the container with access to the GPUs."""
    found = [
        Remedy(
            "Start the container with the GPUs.",
            f"docker run {_CONTAINER_OPTIONS[accelerator]} IMAGE",
        )
    ]
    if accelerator == "cuda":
        found.append(
            Remedy("The host needs the NVIDIA Container Toolkit; on Kubernetes, the pod needs the "
                   "limit `nvidia.com/gpu: 1`.")
        )  # fmt: skip
    return tuple(found)


def install_wheel(
    build: Build, accelerators: Iterable[str], newest: str | None
) -> tuple[Remedy, ...]:
    """Install the framework's build for one of the accelerators.

    Args:
        build: the framework's installed build.
        accelerators: those that the machine has.
        newest: the newest CUDA version that the driver supports; None: unknown.
    """
    there = list(accelerators)
    fitting = [each for each in build.wheels if each.accelerator in there and _runs(each, newest)]
    if not fitting:
        return (Remedy("Install a build for this machine from the framework's own page."),)
    first = fitting[0]
    words = f"{first.accelerator.upper()} {first.version}".replace("ROCM", "ROCm").strip()
    return (Remedy(f"Install its build for {words}.", first.command),)


def _runs(wheel: Wheel, newest: str | None) -> bool:
    if wheel.accelerator != "cuda" or newest is None:
        return True
    # From CUDA 11 on, any driver of the same major version works:
    # https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html
    return major(wheel.version) <= major(newest)


def major(version: str) -> int:
    """12 of ``12.4``."""
    return int(version.partition(".")[0])


def set_variable(machine: Machine, name: str, value: str | None) -> str:
    """The shell command that sets a variable, or unsets it for None."""
    if machine.system == "Windows":
        return f"Remove-Item Env:{name}" if value is None else f'$env:{name} = "{value}"'
    return f"unset {name}" if value is None else f"export {name}={value}"
