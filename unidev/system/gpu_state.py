"""The state that a GPU's speed depends on: clocks, power, ECC and the like, by NVIDIA's driver."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unidev.system.nvml import MOST_GPUS, ask_driver, text

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, kw_only=True)
class GpuState:
    """The state of one GPU at one moment; None: the driver does not report it."""

    index: int
    """The driver's, which may differ from the framework's."""
    name: str | None
    uuid: str | None
    cores: int | None = None
    """CUDA's, of all multiprocessors together."""
    performance_state: str | None
    """``P0``, the fastest, to ``P12``."""
    sm_mhz: int | None
    sm_most_mhz: int | None
    memory_mhz: int | None
    memory_most_mhz: int | None
    utilisation_percent: int | None
    """The part of the last sampling period in which a kernel ran; none of an instance (MIG)."""
    power_w: float | None
    power_limit_w: float | None
    temperature_c: int | None
    throttled_by: str | None
    """The driver's bit mask of what holds the clocks down, such as ``0x4`` for the power limit."""
    ecc: str | None
    """``on`` or ``off``, as the following."""
    mig: str | None
    persistence: str | None
    compute_mode: str | None
    """``default``, ``exclusive thread``, ``prohibited`` or ``exclusive process``."""
    pcie_generation: int | None
    pcie_width: int | None


_SM, _MEMORY, _DIE = 1, 2, 0
_COMPUTE_MODES = ("default", "exclusive thread", "prohibited", "exclusive process")


def read_states(nvml: Any = None) -> tuple[GpuState, ...]:
    """The state of each GPU that the driver describes; none without NVIDIA's driver.

    ``nvml`` is the module ``pynvml``, by default the installed one. Makes no context.
    """
    return ask_driver(_states, nvml) or ()


def driver_version(nvml: Any = None) -> str | None:
    """The version of NVIDIA's driver; None: there is none."""
    return ask_driver(lambda nvml: text(nvml.nvmlSystemGetDriverVersion()), nvml)


def _states(nvml: Any) -> tuple[GpuState, ...]:
    found = []
    for index in range(min(nvml.nvmlDeviceGetCount(), MOST_GPUS)):
        with contextlib.suppress(nvml.NVMLError):  # of a lost card, which hides no other
            found.append(_state(nvml, index, nvml.nvmlDeviceGetHandleByIndex(index)))
    return tuple(found)


def _state(nvml: Any, index: int, handle: Any) -> GpuState:
    def ask(function: str, *more: Any, then: Callable[[Any], Any] = lambda value: value) -> Any:
        with contextlib.suppress(nvml.NVMLError):  # not reported for this card, or to this user
            return then(getattr(nvml, function)(handle, *more))
        return None

    return GpuState(
        index=index,
        name=ask("nvmlDeviceGetName", then=text),
        uuid=ask("nvmlDeviceGetUUID", then=text),
        cores=ask("nvmlDeviceGetNumGpuCores"),
        performance_state=ask("nvmlDeviceGetPerformanceState", then=lambda state: f"P{state}"),
        sm_mhz=ask("nvmlDeviceGetClockInfo", _SM),
        sm_most_mhz=ask("nvmlDeviceGetMaxClockInfo", _SM),
        memory_mhz=ask("nvmlDeviceGetClockInfo", _MEMORY),
        memory_most_mhz=ask("nvmlDeviceGetMaxClockInfo", _MEMORY),
        utilisation_percent=ask("nvmlDeviceGetUtilizationRates", then=lambda rates: rates.gpu),
        power_w=ask("nvmlDeviceGetPowerUsage", then=_watts),
        power_limit_w=ask("nvmlDeviceGetEnforcedPowerLimit", then=_watts),
        temperature_c=ask("nvmlDeviceGetTemperature", _DIE),
        throttled_by=ask("nvmlDeviceGetCurrentClocksThrottleReasons", then=hex),
        ecc=ask("nvmlDeviceGetEccMode", then=lambda modes: _on(modes[0])),
        mig=ask("nvmlDeviceGetMigMode", then=lambda modes: _on(modes[0])),
        persistence=ask("nvmlDeviceGetPersistenceMode", then=_on),
        compute_mode=ask("nvmlDeviceGetComputeMode", then=lambda mode: _COMPUTE_MODES[mode]),
        pcie_generation=ask("nvmlDeviceGetCurrPcieLinkGeneration"),
        pcie_width=ask("nvmlDeviceGetCurrPcieLinkWidth"),
    )


def _watts(milliwatts: int) -> float:
    return milliwatts / 1000


def _on(value: int) -> str:
    return "on" if value else "off"
