"""What a backend says of itself: its devices, and what it can do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unidev.contract.optional import Unsupported
from unidev.errors import UnsupportedOperation

if TYPE_CHECKING:
    from collections.abc import Callable

    from unidev.contract.backend import Backend
    from unidev.contract.device import Device

ABILITIES = (
    "native_scope", "extents", "memory", "pinned", "peaks",
    "probe.write", "probe.gradient", "probe.deleted", "probe.allocated_bytes",
    "probe.read_out",
    "models", "autograd", "layers", "functions", "installation", "tracer",
    "probe.autograd", "probe.autograd.second_order", "probe.autograd.is_differentiable",
    "probe.models", "probe.models.earlier_optimizer", "probe.models.add_hook",
    "probe.models.unbuilt", "probe.models.spread",
)  # fmt: skip
"""What a backend may decline with ``unsupported(reason)``, besides its simulator and its probe."""


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
    """Whether the backend or its probe can do something, and if not, why."""

    supported: bool
    reason: str | None = None
    link: str | None = None


def device_entries(backend: Backend) -> tuple[DeviceEntry, ...]:
    """Every device of ``backend``; raises what the backend raises when it is asked for them."""
    devices = [
        backend.device(kind, index)
        for kind in backend.kinds
        for index in range(backend.device_count(kind))
    ]
    return tuple(_entry(device) for device in devices)


def capabilities(backend: Backend) -> dict[str, Capability]:
    """What ``backend`` says that it can do, read off its attributes.

    Of a backend whose probe does not even load, that is all: judging it is the suite's work.
    """
    try:
        return _declared(backend)
    except Exception as error:  # noqa: BLE001  a stranger's part raises anything while it loads
        return {"probe": Capability(supported=False, reason=f"{type(error).__name__}: {error}")}


def _declared(backend: Backend) -> dict[str, Capability]:
    found = {
        "simulator": _capability(backend.spec.simulator),
        "probe": _capability(backend.probe),
    }
    for name in ABILITIES:
        if not name.startswith("probe.") or found["probe"].supported:
            found[name] = _capability(resolve(backend, name)[1])
    if found.get("probe.allocated_bytes", found["probe"]).supported:
        found["probe.allocated_bytes"] = _counted(backend)
    return found


def resolve(backend: Backend, name: str) -> tuple[str, Any]:
    """The ability; or the part of the backend that it would be in, if that is declined already."""
    found: Any = backend
    so_far: list[str] = []
    for part in name.split("."):
        so_far.append(part)
        found = getattr(found, part)
        # `probe` itself cannot be tried: where it is declined there is nothing to try it with.
        if isinstance(found, Unsupported) and so_far != ["probe"]:
            break
    return ".".join(so_far), found


def _entry(device: Device) -> DeviceEntry:
    return DeviceEntry(
        device=str(device),
        native=_say(lambda: device.native_name),
        name=_say(lambda: device.name),
        simulated=device.is_simulated,
    )


def _say(ask: Callable[[], str]) -> str:
    try:
        return str(ask())
    except Exception as error:  # noqa: BLE001  the checks judge it; the report says what came
        return f"{type(error).__name__}: {error}"


def _counted(backend: Backend) -> Capability:
    try:
        backend.probe.allocated_bytes(backend.device("cpu", 0))
    except UnsupportedOperation as refusal:
        return Capability(supported=False, reason=refusal.reason, link=refusal.link)
    return Capability(supported=True)


def _capability(ability: object) -> Capability:
    if isinstance(ability, Unsupported):
        return Capability(supported=False, reason=ability.reason, link=ability.link)
    return Capability(supported=True)
