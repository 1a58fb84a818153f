"""What was measured, as plain data: made by ``running``, read by everything that shows it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from unidev.bench.spread import Summary

FORMAT_VERSION = 1
"""Of the JSON."""

FLOOR, BANDWIDTH, PRODUCT, SUM, TEXTBOOK, FORUM = (
    "floor", "bandwidth", "product", "sum", "textbook", "forum",
)  # fmt: skip
"""The subjects, in the order in which they are shown."""

HERE = "on the device"
"""The data is there, and what is computed stays there."""
JOURNEY = "with the journey"
"""The data comes from the host, and the result goes back there."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """One thing, on one device or from one to another."""

    subject: str
    what: str
    device: str
    """``gpu:0``, or a route, ``cpu:0 to gpu:0``."""
    variant: str = HERE
    size: int | None = None
    """Rows of the square matrices, or bytes that are moved; None: there is one size."""
    summary: Summary | None = None
    reason: str | None = None
    """Why there is no timing."""


@dataclass(frozen=True, kw_only=True)
class DeviceTold:
    """A device, and whether its seconds mean anything."""

    device: str
    name: str
    is_simulated: bool


@dataclass(frozen=True, kw_only=True)
class Bench:
    """All of it."""

    backend: str
    framework: str
    framework_version: str
    unidev_version: str
    python: str
    platform: str
    cores: int
    load: float | None
    """How many processes wanted to run when this began; None: the system does not tell."""
    date: str
    is_full: bool
    seconds: float
    devices: tuple[DeviceTold, ...]
    results: tuple[Result, ...]

    @property
    def real(self) -> list[DeviceTold]:
        """The devices that were measured."""
        return [each for each in self.devices if not each.is_simulated]

    @property
    def simulated(self) -> list[DeviceTold]:
        """Those that were left out."""
        return [each for each in self.devices if each.is_simulated]

    @property
    def gpus(self) -> list[str]:
        """The GPUs that were measured."""
        return [each.device for each in self.real if each.device.startswith("gpu")]

    def find(self, subject: str, **wanted: Any) -> list[Result]:
        """Results of a subject whose attributes are as wanted."""
        return [
            each
            for each in self.results
            if each.subject == subject
            and all(getattr(each, name) == value for name, value in wanted.items())
        ]

    def timing(self, subject: str, **wanted: Any) -> Summary | None:
        """The one timing of that description; None: there is none."""
        return next((each.summary for each in self.find(subject, **wanted) if each.summary), None)


def to_document(
    bench: Bench, findings: list[str], crossovers: dict[str, int | None]
) -> dict[str, Any]:
    """The JSON; seconds by name."""
    document = asdict(bench)
    document["results"] = [
        {**asdict(each), "summary": None if each.summary is None else each.summary._asdict()}
        for each in bench.results
    ]
    return {"format": FORMAT_VERSION, **document, "crossovers": crossovers, "findings": findings}


def from_document(document: dict[str, Any]) -> Bench:
    """What ``to_document`` made the JSON of."""
    if document["format"] != FORMAT_VERSION:
        raise ValueError(f"format {document['format']} of unidev bench; this is {FORMAT_VERSION}")
    concluded = ("format", "crossovers", "findings")
    told = {key: value for key, value in document.items() if key not in concluded}
    told["devices"] = tuple(DeviceTold(**each) for each in told["devices"])
    told["results"] = tuple(
        Result(**{**each, "summary": each["summary"] and Summary(**each["summary"])})
        for each in told["results"]
    )
    return Bench(**told)
