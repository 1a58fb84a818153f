"""Simulated GPUs: how many were requested."""

from __future__ import annotations

import os

from unidev.errors import SimulationError
from unidev.registry.loading import loaded_backends, loading_lock
from unidev.support.wording import shown

TYPE_CHECKING = False  # not typing's: importing that takes as long as all of unidev

VARIABLE = "UNIDEV_SIMULATE"
MOST = 64


def simulate(count: int) -> None:
    """Replace real GPUs with ``count`` simulated ones in every backend loaded from now on.

    ``count`` is 1 to 64. Sets ``UNIDEV_SIMULATE`` in the environment, which child processes
    inherit. To the framework these are devices like any other, each with its own memory on the
    host.

    Raises:
        SimulationError: ``count`` is out of range, or a backend is already loaded with another
            number.
    """
    if type(count) is not int or not 1 <= count <= MOST:
        raise SimulationError(_out_of_range(shown(count)))
    with loading_lock:  # so that no backend is being loaded with the previous number
        for name, backend in loaded_backends.items():
            if backend.simulated_count != count:
                has = backend.simulated_count or "no"
                raise SimulationError(
                    f"backend {name!r} is already in use with {has} simulated GPUs: call "
                    f"unidev.simulate({count}) before any other function of unidev, or start "
                    f"Python with {VARIABLE}={count}."
                )
        os.environ[VARIABLE] = str(count)


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
        raise SimulationError(f"{VARIABLE}: " + _out_of_range(shown(text)))
    return number


def _out_of_range(given: str) -> str:
    return (
        f"the number of simulated GPUs must be an integer from 1 to {MOST}, not {given}. "
        f"Example: {VARIABLE}=2."
    )
