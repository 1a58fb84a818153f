"""Simulated GPUs: how many were asked for, and a place in the user's cache for what they need."""

from __future__ import annotations

import os

from unidev.errors import SimulationError
from unidev.registry.loading import loaded_backends, loading_lock
from unidev.support.wording import shown

TYPE_CHECKING = False  # not typing's: importing that takes as long as all of unidev

VARIABLE = "UNIDEV_SIMULATE"
MOST = 64


def simulate(count: int) -> None:
    """Give every backend that is loaded from now on ``count`` simulated GPUs in place of real ones.

    ``count`` is 1 to 64. The same as ``UNIDEV_SIMULATE`` in the environment, which child processes
    inherit. To the framework they are devices like any other, with memory of their own on the host.

    Raises:
        SimulationError: out of range, or a backend is loaded already with another number.
    """
    if type(count) is not int or not 1 <= count <= MOST:
        raise SimulationError(_out_of_range(shown(count)))
    with loading_lock:  # so that no backend is being loaded with the number before
        for name, backend in loaded_backends.items():
            if backend.simulated_count != count:
                has = backend.simulated_count or "no"
                raise SimulationError(
                    f"backend {name!r} is in use already, with {has} simulated GPUs: call "
                    f"unidev.simulate({count}) before anything else of unidev, or start Python "
                    f"with {VARIABLE}={count}."
                )
        os.environ[VARIABLE] = str(count)


def simulated_count() -> int:
    """How many simulated GPUs a backend that is loaded now gets; 0 for the machine's own devices.

    Raises:
        SimulationError: ``UNIDEV_SIMULATE`` is not an integer from 0 to 64.
    """
    text = os.environ.get(VARIABLE, "").strip() or "0"
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 4 else -1
    if not 0 <= number <= MOST:
        raise SimulationError(f"{VARIABLE}: " + _out_of_range(shown(text)))
    return number


def _out_of_range(given: str) -> str:
    return (
        f"the number of simulated GPUs must be an integer from 1 to {MOST}, not {given}. "
        f"Example: {VARIABLE}=2."
    )
