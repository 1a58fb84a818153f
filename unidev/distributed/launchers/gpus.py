"""How many GPUs a backend has on this machine, where possible without importing its framework."""

from __future__ import annotations

import os

from unidev.errors import FrameworkError
from unidev.registry.loading import loaded_backends
from unidev.registry.simulation import simulated_count


def gpu_count(name: str) -> int:
    """The number of GPUs, real or simulated, that the backend ``name`` can use in a new process.

    Raises:
        FrameworkError: its framework crashes or hangs when it is queried.
    """
    if name == "numpy" or simulated_count():
        return simulated_count()
    if name in loaded_backends:
        return loaded_backends[name].device_count("gpu")
    return _count_in_a_child(name)


def _count_in_a_child(name: str) -> int:
    from unidev.hardware.machine import read_machine

    machine = read_machine(os.environ)
    if not (machine.gpus or machine.gpus_on_bus or machine.device_files):
        return 0
    from unidev.registry.discovery import plugin_points
    from unidev.registry.queries import ask_plugins
    from unidev.support.child_processes import noticing_interruption

    points = [point for point in plugin_points() if point.name == name]
    with noticing_interruption() as stop:
        (answer,) = ask_plugins("plugin", points, 120.0, stop, {})
    if answer["problem"] is not None:
        raise FrameworkError(f"the GPUs of backend {name!r} cannot be counted: {answer['problem']}")
    return sum(device["kind"] == "gpu" for device in answer["devices"])
