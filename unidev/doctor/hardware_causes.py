"""No GPU at all: none on the bus, or simulated GPUs instead of real ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unidev.backends.simulation import simulated_gpus
from unidev.doctor.facts import Finding, Remedy
from unidev.doctor.remedies import DRIVER_PAGES, set_variable
from unidev.errors import SimulationError
from unidev.system.facts import VENDORS
from unidev.system.settings import DETAILS, SIMULATE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from unidev.doctor.facts import Case
    from unidev.system.facts import Machine


def no_gpu(case: Case) -> Iterator[Finding]:
    """No NVIDIA, AMD or Intel GPU is on the bus."""
    machine = case.machine
    if not lacks_hardware(machine) or case.is_seen_by_frameworks_alone:
        return
    simulate = []
    if machine.environment.get(SIMULATE, "").strip() in ("", "0"):
        text = "To write and test GPU code here, simulate GPUs."
        simulate.append(Remedy(text, set_variable(machine, SIMULATE, "2")))
    link = None
    if machine.pci_count is None:
        title, link = "No GPU or GPU driver was found.", DRIVER_PAGES["cuda"]
        evidence = [f"no driver answers, and {machine.system} does not expose a PCI bus"]
        text = "If this machine has a GPU, install its vendor's driver."
    else:
        title = "This machine has no GPU."
        evidence = [
            f"PCI devices on the bus: {machine.pci_count}; NVIDIA, AMD or Intel GPUs: none",
            "there is no GPU device file: /dev/nvidia*, /dev/kfd",
        ]
        text = "Run on a machine with a GPU; virtual machines must have one assigned to them."
    yield Finding("no-gpu", title, tuple(evidence), (Remedy(text), *simulate), link)


def lacks_hardware(machine: Machine) -> bool:
    """Whether there is no sign of a GPU."""
    return not machine.gpus and not any(has_gpu(machine, each) for each in VENDORS.values())


def has_gpu(machine: Machine, accelerator: str) -> bool:
    """Whether there is any sign of a GPU of that vendor, used or not."""
    driver = machine.driver(accelerator)
    if machine.on_bus(accelerator) or driver.gpus or driver.unreadable:
        return True
    # Without sysfs, the bus is not visible; under WSL, the GPU is on the bus of Windows.
    if accelerator == "cuda":
        files = machine.files("/dev/nvidia")
        return bool(files or machine.nvidia_kernel or machine.is_wsl)
    return accelerator == "rocm" and bool(machine.files("/dev/kfd"))


def simulated(case: Case) -> Iterator[Finding]:
    """``UNIDEV_SIMULATE`` is set: the GPUs that programs see are not real, or there are none."""
    given: dict[str, str] = {
        variable: text
        for variable in (SIMULATE, *DETAILS)
        if (text := case.machine.environment.get(variable, "").strip())
    }
    them = "it" if len(given) < 2 else "them"
    unset = "; ".join(set_variable(case.machine, each, None) for each in given)
    remedies = (Remedy(f"To use the machine's own devices, unset {them}.", unset),)
    try:
        gpus = simulated_gpus(given)
    except SimulationError as error:
        title = f"{SIMULATE} is not a number of GPUs: no backend can be used."
        if given.keys() & set(DETAILS):
            title = "The simulated GPUs cannot be as requested: no backend can be used."
        yield Finding("simulated", title, (str(error),), remedies)
        return
    if gpus is None:
        return
    if case.lacks_simulator is not None:
        title = f"{SIMULATE} is set, and the simulator is missing: the backend cannot be used."
        yield Finding("simulated", title, (case.lacks_simulator,), remedies)
        return
    real = case.machine.gpus
    which = "gpu:0 is" if gpus.count == 1 else f"gpu:0 to gpu:{gpus.count - 1} are"
    named = f", and programs see them as {gpus.name}" if gpus.name is not None else ""
    settings = " ".join(f"{variable}={text}" for variable, text in given.items())
    yield Finding(
        "simulated",
        f"{SIMULATE} is set: unidev's {which} simulated{named}.",
        (
            f"{settings}: they use host memory and compute on the CPU",
            *(f"the real {gpu.name} is not used while it is set" for gpu in real),
        ),
        remedies,
        is_blocking=bool(real),
    )
