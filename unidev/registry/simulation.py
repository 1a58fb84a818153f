"""Simulated GPUs: how many were requested."""

from __future__ import annotations

import os

from unidev.errors import SimulationError
from unidev.support.wording import shown

VARIABLE = "UNIDEV_SIMULATE"
MOST = 64


def simulated_count() -> int:
    """The number of simulated GPUs for a backend loaded now; 0 for the machine's own devices.

    Raises:
        SimulationError: ``UNIDEV_SIMULATE`` is not an integer from 0 to 64.
    """
    return count_in(os.environ.get(VARIABLE, ""))


def count_in(value: str) -> int:
    """The number in a value of ``UNIDEV_SIMULATE``.

    Raises:
        SimulationError: it is not an integer from 0 to 64.
    """
    text = value.strip() or "0"
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 4 else -1
    if not 0 <= number <= MOST:
        raise SimulationError(f"{VARIABLE}: " + out_of_range(shown(text), least=0))
    return number


def out_of_range(given: str, *, least: int = 1) -> str:
    """The message about a number of simulated GPUs that cannot be."""
    return (
        f"the number of simulated GPUs must be an integer from {least} to {MOST}, not {given}. "
        f"Example: {VARIABLE}=2."
    )
