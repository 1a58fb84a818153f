"""Simulated GPUs: how many were requested, and with which name, memory and model."""

from __future__ import annotations

import os

from unidev.errors import SimulationError
from unidev.system.wording import bytes_in, lacks_unit, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from unidev.contract.backend_spec import SimulatedGpus

VARIABLE = "UNIDEV_SIMULATE"
NAME = "UNIDEV_SIMULATE_AS"
MEMORY = "UNIDEV_SIMULATE_MEMORY"
MODEL = "UNIDEV_SIMULATE_LIKE"
FIRST = "UNIDEV_SIMULATE_FIRST"
"""Set for workers: the number of this process's first GPU among those of all workers."""
DETAILS = (NAME, MEMORY, MODEL)
"""Variables that say more about the simulated GPUs, and nothing without ``VARIABLE``."""
MOST = 64

prepared: SimulatedGpus | None = None
"""The GPUs whose name this process has been prepared for: it can have no others."""


def simulated_count() -> int:
    """The number of simulated GPUs for a backend loaded now; 0 for the machine's own devices.

    Raises:
        SimulationError: ``UNIDEV_SIMULATE`` is not an integer from 0 to 64.
    """
    return _count_in(os.environ.get(VARIABLE, ""))


def simulated_gpus() -> SimulatedGpus | None:
    """The simulated GPUs of a backend loaded now; None for the machine's own devices.

    Raises:
        SimulationError: a variable has a wrong value; names the variable and gives an example.
    """
    return gpus_in(os.environ)


def gpus_in(environment: Mapping[str, str]) -> SimulatedGpus | None:
    """The simulated GPUs that the variables of ``environment`` request; None if they request none.

    Raises:
        SimulationError: a variable has a wrong value, or is about GPUs that are not simulated.
    """
    count = _count_in(environment.get(VARIABLE, ""))
    details = {each: text for each in DETAILS if (text := environment.get(each, "").strip())}
    if not count:
        for variable, text in details.items():
            raise SimulationError(
                f"{variable}={_plain(text)} is set, but no GPUs are simulated: set {VARIABLE} to "
                f"their number as well, such as {VARIABLE}=8, or unset {variable}."
            )
        return None
    from unidev.contract.backend_spec import SimulatedGpus

    return SimulatedGpus(
        count=count,
        name=_word(NAME, details.get(NAME), "a framework's name for GPUs", "cuda"),
        memory_bytes=memory_in(details[MEMORY]) if MEMORY in details else None,
        like=_word(MODEL, details.get(MODEL), "a model of GPU", "H100"),
        first=_first_in(environment.get(FIRST, "")),
    )


def memory_in(text: str) -> int:
    """The bytes of a value of ``UNIDEV_SIMULATE_MEMORY``.

    Raises:
        SimulationError: it is not a size.
    """
    number = bytes_in(text)
    if lacks_unit(text):
        raise SimulationError(
            f"{MEMORY}={text.strip()} is {number} bytes, since it has no unit. Example: "
            f"{MEMORY}={text.strip()}GiB."
        )
    if not number:
        raise SimulationError(
            f"{MEMORY}: the memory of a simulated GPU must be a positive number of KiB, MiB or "
            f"GiB, or an integer of bytes, not {shown(text)}. Example: {MEMORY}=24GiB."
        )
    return number


def settings_of(gpus: SimulatedGpus) -> dict[str, str]:
    """The variables that request ``gpus``."""
    values = {
        VARIABLE: gpus.count, NAME: gpus.name, MEMORY: gpus.memory_bytes, MODEL: gpus.like,
    }  # fmt: skip
    return {name: str(value) for name, value in values.items() if value is not None}


def out_of_range(given: str, *, least: int = 1) -> str:
    """The message about a number of simulated GPUs that cannot be."""
    return (
        f"the number of simulated GPUs must be an integer from {least} to {MOST}, not {given}. "
        f"Example: {VARIABLE}=2."
    )


def _count_in(value: str) -> int:
    text = value.strip() or "0"
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 4 else -1
    if not 0 <= number <= MOST:
        raise SimulationError(f"{VARIABLE}: " + out_of_range(shown(text), least=0))
    return number


def _first_in(value: str) -> int:
    text = value.strip() or "0"
    if text.isascii() and text.isdigit() and len(text) < 10:
        return int(text)
    raise SimulationError(
        f"{FIRST}: unidev sets it in workers to a non-negative integer, and it is {shown(text)}: "
        "unset it."
    )


def _word(variable: str, text: str | None, what: str, example: str) -> str | None:
    # Whether there is such a name or model is for each framework's simulator to say.
    if text is None or (text.isascii() and text.replace("-", "").replace("_", "").isalnum()):
        return text
    raise SimulationError(
        f"{variable} must be {what}, in letters and digits, not {shown(text)}. "
        f"Example: {variable}={example}."
    )


def _plain(text: str) -> str:
    return text if text.isascii() and text.isprintable() and len(text) < 40 else shown(text)
