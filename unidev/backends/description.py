"""A backend's description of itself: its devices and its capabilities."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unidev.backends.loading import missing_simulator
from unidev.contract.backend import Backend
from unidev.contract.optional import Unsupported, abilities_of
from unidev.errors import UnsupportedOperation
from unidev.system.wording import error_text

if TYPE_CHECKING:
    from unidev.device import Device

_COUNT = "probe.allocated_bytes"


@functools.cache
def abilities() -> dict[str, str]:
    """Abilities that a backend may decline: by name, a label for readers."""
    return {"simulator": "simulated GPUs", **abilities_of(Backend)}


@dataclass(frozen=True, kw_only=True)
class DeviceEntry:
    """A device that the backend lists."""

    device: str
    """Unidev's spelling, ``gpu:0``."""
    native: str
    """The framework's spelling."""
    name: str
    """The hardware's name."""
    simulated: bool


@dataclass(frozen=True, kw_only=True)
class Capability:
    """Whether the backend or its probe has an ability, and if not, why."""

    supported: bool
    reason: str | None = None
    link: str | None = None


def device_entries(backend: Backend) -> tuple[DeviceEntry, ...]:
    """Every device of ``backend``; errors of the backend propagate."""
    devices = [
        backend.device(kind, index)
        for kind in backend.kinds
        for index in range(backend.device_count(kind))
    ]
    return tuple(
        DeviceEntry(
            device=str(each),
            native=_text(each, "native_name"),
            name=_text(each, "name"),
            simulated=each.is_simulated,
        )
        for each in devices
    )


def capabilities(backend: Backend) -> dict[str, Capability]:
    """The declared abilities of ``backend``; if its probe does not load, only that is reported."""
    try:
        found = {name: _capability(resolve(backend, name)) for name in abilities()}
        if found[_COUNT].supported:
            found[_COUNT] = _counted(backend)
    except Exception as error:  # noqa: BLE001  a third-party part may raise anything as it loads
        return {"probe": Capability(supported=False, reason=error_text(error))}
    return found


def resolve(backend: Backend, name: str) -> Any:
    """The ability, or the part of the backend that would contain it, if that is unsupported."""
    if name == "simulator" and (missing := missing_simulator(backend.spec)):
        return Unsupported(missing, operation=name)
    found: Any = backend.spec if name == "simulator" else backend
    for part in name.split("."):
        found = getattr(found, part)
        if isinstance(found, Unsupported):
            break
    return found


def _text(device: Device, attribute: str) -> str:
    try:
        return str(getattr(device, attribute))
    except Exception as error:  # noqa: BLE001  the checks judge it; the report shows the error
        return error_text(error)


def _counted(backend: Backend) -> Capability:
    try:
        backend.probe.allocated_bytes(backend.device("cpu", 0))
    except UnsupportedOperation as refusal:
        return _capability(refusal)
    return Capability(supported=True)


def _capability(ability: object) -> Capability:
    if isinstance(ability, (Unsupported, UnsupportedOperation)):
        return Capability(supported=False, reason=ability.reason, link=ability.link)
    return Capability(supported=True)
