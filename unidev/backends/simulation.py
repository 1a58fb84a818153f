"""Simulated GPUs: how many were requested, and with which name, memory and model."""

from __future__ import annotations

import os

from unidev.errors import SimulationError
from unidev.system.settings import (
    DETAILS,
    SIMULATE,
    SIMULATE_AS,
    SIMULATE_COMPILE,
    SIMULATE_FIRST,
    SIMULATE_LATE,
    SIMULATE_LIKE,
    SIMULATE_MEMORY,
)
from unidev.system.wording import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from unidev.contract.backend_spec import SimulatedGpus

prepared: SimulatedGpus | None = None
"""The GPUs whose name this process has been prepared for: it can have no others."""


def simulated_count() -> int:
    """The number of simulated GPUs for a backend loaded now; 0 for the machine's own devices.

    Raises:
        SimulationError: ``UNIDEV_SIMULATE`` is not an integer from 0 to 64.
    """
    count: int = SIMULATE.value()
    return count


def simulated_gpus(environment: Mapping[str, str] = os.environ) -> SimulatedGpus | None:
    """The simulated GPUs that ``environment`` requests; None for the machine's own devices.

    Raises:
        SimulationError: a variable has a wrong value, or is about GPUs that are not simulated;
            names it and gives an example.
    """
    count = SIMULATE.value(environment)
    if not count:
        for variable in DETAILS:
            if text := environment.get(variable, "").strip():
                is_plain = text.isascii() and text.isprintable() and len(text) < 40
                raise SimulationError(
                    f"{variable}={text if is_plain else shown(text)} is set, but no GPUs are "
                    f"simulated: set {SIMULATE} to their number as well, such as {SIMULATE}=8, or "
                    f"unset {variable}."
                )
        return None
    from unidev.contract.backend_spec import SimulatedGpus

    return SimulatedGpus(
        count=count,
        name=SIMULATE_AS.value(environment),
        memory_bytes=SIMULATE_MEMORY.value(environment),
        like=SIMULATE_LIKE.value(environment),
        compile=SIMULATE_COMPILE.value(environment),
        late=SIMULATE_LATE.value(environment),
        first=SIMULATE_FIRST.value(environment),
    )


def settings_of(gpus: SimulatedGpus) -> dict[str, str]:
    """The variables that request ``gpus``."""
    values = {
        SIMULATE: gpus.count, SIMULATE_AS: gpus.name, SIMULATE_MEMORY: gpus.memory_bytes,
        SIMULATE_LIKE: gpus.like, SIMULATE_COMPILE: gpus.compile,
        SIMULATE_LATE: gpus.late,
    }  # fmt: skip
    return {name: str(value) for name, value in values.items() if value is not None}
