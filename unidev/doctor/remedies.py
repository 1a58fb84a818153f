"""Remedies for causes: a sentence, and the exact command if there is one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unidev.doctor.facts import Remedy
from unidev.system.facts import MAKERS

if TYPE_CHECKING:
    from collections.abc import Sequence

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


def install_driver(machine: Machine, accelerator: str) -> Remedy:
    """Install, or reinstall, the driver for that vendor's GPUs."""
    text = f"Install {MAKERS[accelerator]}'s driver and restart"
    if machine.container:
        return Remedy(f"{text} (on the host, not in the container).")
    commands = _DRIVER_COMMANDS if accelerator == "cuda" else {}
    return Remedy(f"{text}.", commands.get(machine.distribution or ""))


def start_container(accelerator: str) -> tuple[Remedy, ...]:
    """Start the container with access to the GPUs."""
    command = f"docker run {_CONTAINER_OPTIONS[accelerator]} IMAGE"
    start = Remedy("Start the container with the GPUs.", command)
    if accelerator != "cuda":
        return (start,)
    text = (
        "The host needs the NVIDIA Container Toolkit; on Kubernetes, the pod needs the limit "
        "`nvidia.com/gpu: 1`."
    )
    return start, Remedy(text)


def install_wheel(build: Build, accelerators: Sequence[str], newest: str | None) -> Remedy:
    """Install the framework's build for one of the machine's accelerators.

    ``build`` is the installed one, ``newest`` the newest CUDA version that the driver supports;
    None: unknown.
    """
    for each in build.wheels:
        if each.accelerator in accelerators and _runs(each, newest):
            words = f"{each.accelerator.upper()} {each.version}".replace("ROCM", "ROCm").strip()
            return Remedy(f"Install its build for {words}.", each.command)
    return Remedy("Install a build for this machine from the framework's own page.")


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
