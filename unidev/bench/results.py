"""The measurements, as plain data: made by ``running``, read by everything that presents them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from unidev.bench.spread import Summary
    from unidev.system.gpu_state import GpuState

FORMAT_VERSION = 2
"""The version of the JSON format."""

FLOOR, BANDWIDTH, PRODUCT, SUM, TEXTBOOK = "floor", "bandwidth", "product", "sum", "textbook"
"""The subjects, in display order."""

HERE = "on the device"
"""The data is on the device, and the result stays there."""
JOURNEY = "with the journey"
"""The data is moved from the host, and the result back to it."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """One measurement, on one device or from one to another."""

    subject: str
    what: str
    device: str
    """``gpu:0``, or a route, ``cpu:0 to gpu:0``."""
    variant: str = HERE
    size: int | None = None
    """Rows of the square matrices, or bytes moved; None: the size is fixed."""
    summary: Summary | None = None
    reason: str | None = None
    """Why there is no timing."""


@dataclass(frozen=True, kw_only=True)
class Crossover:
    """The size from which a GPU is faster than the CPU."""

    subject: str
    device: str
    variant: str
    rows: int | None
    """None: none of the sizes that were measured on both."""
    missing: tuple[int, ...]
    """The sizes that were not measured on one of them, or on both."""


@dataclass(frozen=True, kw_only=True)
class DeviceRecord:
    """A device, and whether it is simulated, in which case it is not timed."""

    device: str
    name: str
    is_simulated: bool
    total_bytes: int | None = None
    """None: the framework does not report it, or the device is simulated, or the CPU."""
    is_memory_shared: bool = False
    """Whether the memory is the host's, also of a GPU."""


@dataclass(frozen=True, kw_only=True)
class GpuRecord:
    """Clocks, power and the like of one of NVIDIA's GPUs, before and after the measurements."""

    before: GpuState
    after: GpuState | None
    """None: the driver no longer described it."""


@dataclass(frozen=True, kw_only=True)
class Bench:
    """All measurements, with the circumstances."""

    backend: str
    framework: str
    framework_version: str
    unidev_version: str
    python: str
    platform: str
    cores: int
    load: float | None
    """The system's load average at the start; None: the system does not report it."""
    date: str
    is_full: bool
    seconds: float
    devices: tuple[DeviceRecord, ...]
    results: tuple[Result, ...]
    cpu_mhz: int | None = None
    """The CPU's highest clock; None: the system does not report it."""
    driver: str | None = None
    """The version of NVIDIA's driver; None: there is none."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """The framework's settings that change its speed, such as TF32."""
    gpu_states: tuple[GpuRecord, ...] = ()
    """By the driver's indexes."""

    @property
    def real(self) -> list[DeviceRecord]:
        """The devices that were measured."""
        return [each for each in self.devices if not each.is_simulated]

    @property
    def simulated(self) -> list[DeviceRecord]:
        """The devices that were left out."""
        return [each for each in self.devices if each.is_simulated]

    @property
    def gpus(self) -> list[str]:
        """The GPUs that were measured."""
        return [each.device for each in self.real if each.device.startswith("gpu")]

    def find(self, subject: str, **wanted: Any) -> list[Result]:
        """The results of a subject whose attributes match ``wanted``."""
        return [
            each
            for each in self.results
            if each.subject == subject
            and all(getattr(each, name) == value for name, value in wanted.items())
        ]

    def timing(self, subject: str, **wanted: Any) -> Summary | None:
        """The timing that matches; None: there is none."""
        return next((each.summary for each in self.find(subject, **wanted) if each.summary), None)


def to_document(bench: Bench, findings: list[str], crossovers: list[Crossover]) -> dict[str, Any]:
    """The JSON document; timings are objects with named fields."""
    document = asdict(bench)
    document["results"] = [
        {**asdict(each), "summary": None if each.summary is None else each.summary._asdict()}
        for each in bench.results
    ]
    return {
        "format": FORMAT_VERSION,
        **document,
        "crossovers": [asdict(each) for each in crossovers],
        "findings": findings,
    }
