"""The simulated GPUs of array-api-strict, which are devices that it has anyway."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unidev.contract import Simulator

if TYPE_CHECKING:
    from unidev.contract import SimulatedGpus

GPUS = ("device1", "device2")
"""Devices that carry every dtype and refuse to mix; ``device2`` defaults to float32."""
POOR = {"no_float64": "no_float64", "no_int64": "no_x64", "no_x64": "no_x64"}
"""Devices without some dtypes, by the words that ``UNIDEV_SIMULATE_LIKE`` takes."""


class StrictSimulator(Simulator):
    """Nothing is set up, so it is never too late."""

    like: str | None = None
    """Of this process: which device of ``POOR`` its one simulated GPU is."""

    def start(self, count: int) -> None:
        """Do nothing: the library has the devices."""

    def start_as(self, gpus: SimulatedGpus) -> None:
        """Remember the model, which the backend's constructor is not told."""
        StrictSimulator.like = None if gpus.like is None else POOR[gpus.like]

    def refusal(self, gpus: SimulatedGpus) -> str | None:
        """Refuse more GPUs than there are, a name and a memory."""
        if gpus.like is not None and gpus.like not in POOR:
            return f"UNIDEV_SIMULATE_LIKE={gpus.like} is none of {', '.join(POOR)}"
        most = 1 if gpus.like is not None else len(GPUS)
        if gpus.count > most:
            model = "" if gpus.like is None else f" like {gpus.like}"
            return (
                f"array_api_strict has {most} that can be a simulated GPU{model}, and "
                f"{gpus.count} are requested: set UNIDEV_SIMULATE={most}"
            )
        if gpus.like is None:
            return super().refusal(gpus)
        from dataclasses import replace

        return super().refusal(replace(gpus, like=None))


def simulated_names(count: int) -> tuple[str, ...]:
    """The library's names of the simulated GPUs, in order."""
    return GPUS[:count] if StrictSimulator.like is None else (StrictSimulator.like,)[:count]
