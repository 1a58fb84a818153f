"""How many GPUs each worker has for itself, where possible without importing the framework."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from unidev.backends.loading import loaded_backends
from unidev.backends.simulation import simulated_count
from unidev.errors import DeviceNotFoundError, FrameworkError
from unidev.system.printing import say
from unidev.system.wording import count_text

if TYPE_CHECKING:
    from unidev.contract.launcher import Launcher


def gpus_of_each(launcher: Launcher, wanted: int | None, backend: str) -> int:
    """As many as ``wanted``; if it is None, one if there are enough for all workers, else none."""
    if wanted == 0:
        return 0
    size, there = launcher.size, _there(launcher, backend)
    if wanted is None:
        if 0 < there < size:
            say(
                f"{count_text(there, 'GPU')} for {count_text(size, 'worker')}: all of them use "
                "the CPU."
            )
        return int(there >= size)
    if wanted * size > there:
        raise DeviceNotFoundError(
            f"{count_text(size, 'worker')} with {count_text(wanted, 'GPU')} each need "
            f"{wanted * size}, and {launcher.gpus_are_of} has {there}: use fewer workers, or "
            "gpus_per_worker=0 for the CPU."
        )
    return wanted


def _there(launcher: Launcher, backend: str) -> int:
    """The number of GPUs, real or simulated, that the workers can use together."""
    count, simulated = launcher.gpu_count(), simulated_count()
    if count is not None:
        return simulated * launcher.size or count  # each process has its own simulated ones
    if backend == "numpy" or simulated:
        return simulated
    if backend in loaded_backends:
        return loaded_backends[backend].device_count("gpu")
    return _count_in_a_child(backend)


def _count_in_a_child(name: str) -> int:
    from unidev.system.machine import read_machine

    machine = read_machine(os.environ)
    if not (machine.gpus or machine.gpus_on_bus or machine.device_files):
        return 0
    from unidev.backends.discovery import plugin_points
    from unidev.backends.queries import ask_plugins
    from unidev.system.child_processes import noticing_interruption

    points = [point for point in plugin_points() if point.name == name]
    with noticing_interruption() as stop:
        (answer,) = ask_plugins("plugin", points, 120.0, stop, {})
    if answer["problem"] is not None:
        raise FrameworkError(f"the GPUs of backend {name!r} cannot be counted: {answer['problem']}")
    return sum(device["kind"] == "gpu" for device in answer["devices"])
