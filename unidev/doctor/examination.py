"""Gathers the facts of a case, querying machine and frameworks at the same time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unidev.doctor.facts import Case
from unidev.doctor.frameworks import ask_frameworks
from unidev.hardware.driver_process import driver_process
from unidev.hardware.machine import read_machine
from unidev.hardware.processes import this_process
from unidev.registry.discovery import plugin_points

if TYPE_CHECKING:
    from collections.abc import Mapping

    from unidev.support.child_processes import Interruption


class UnknownBackendError(LookupError):
    """No installed plugin has a backend of that name, or its framework is not installed."""


def examine(
    environment: Mapping[str, str], backend: str | None, timeout_s: float, stop: Interruption
) -> Case:
    """Query the machine, its drivers and the frameworks.

    Raises:
        UnknownBackendError: there is no ``backend``, or its framework is not installed.
    """
    # NVIDIA's driver may take seconds to wake up; importing the frameworks takes as long.
    with driver_process() as driver:
        frameworks = ask_frameworks(backend, timeout_s, stop)
        if backend is not None and not frameworks and not stop:
            there = ", ".join(sorted(point.name for point in plugin_points()))
            raise UnknownBackendError(
                f"there is no backend {backend!r} whose framework is installed; plugins: {there}. "
                "Run `unidev info` to see what is missing."
            )
        nvidia = driver.answer(timeout_s, stop)
    return Case(read_machine(environment, nvidia=nvidia), frameworks, this_process())
