"""Gathering all facts of a case: the frameworks while the machine is looked at."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from unidev.doctor.facts import Case
from unidev.doctor.frameworks import ask_frameworks
from unidev.hardware.machine import read_machine
from unidev.hardware.processes import this_process
from unidev.registry.discovery import plugin_points

if TYPE_CHECKING:
    from collections.abc import Mapping

    from unidev.support.child_processes import Interruption


class UnknownBackendError(LookupError):
    """No plugin that is installed has a backend of that name."""


def examine(
    environment: Mapping[str, str], backend: str | None, timeout_s: float, stop: Interruption
) -> Case:
    """Ask the machine, its drivers and the frameworks.

    Raises:
        UnknownBackendError: there is no ``backend``, or its framework is not installed.
    """
    with ThreadPoolExecutor(1) as pool:
        # NVIDIA's driver may take seconds to wake up, and the frameworks to be imported.
        machine = pool.submit(read_machine, environment, wait_s=timeout_s)
        frameworks = ask_frameworks(backend, timeout_s, stop)
        if backend is not None and not frameworks and not stop:
            there = ", ".join(sorted(point.name for point in plugin_points()))
            raise UnknownBackendError(
                f"there is no backend {backend!r} whose framework is installed; plugins: {there}. "
                "`unidev info` says what is missing."
            )
        return Case(machine.result(), frameworks, this_process())
