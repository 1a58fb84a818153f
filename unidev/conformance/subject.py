"""The backend under judgement: loading it, and what the report says of it."""

from __future__ import annotations

import platform
import sys
from importlib import metadata
from typing import TYPE_CHECKING

import unidev
from unidev.backend import Unsupported
from unidev.conformance import SUITE_VERSION
from unidev.conformance.abilities import capabilities
from unidev.conformance.events import DeviceEntry, Session
from unidev.errors import SimulationError, UnidevError
from unidev.loading import load_backend
from unidev.plugins import backend_spec
from unidev.simulation import simulated_count

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from unidev.backend import Backend
    from unidev.conformance.catalog import Check
    from unidev.conformance.events import Capability
    from unidev.device import Device


class Refusal(Exception):  # noqa: N818  it is what the event is called
    """There is nothing to judge."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        """One of ``events.REFUSALS``."""


def load_subject(name: str) -> Backend:
    """Load backend ``name``, and select it for the process.

    Raises:
        Refusal: it is not there, or cannot have the simulated devices that were asked for.
    """
    try:
        spec = backend_spec(name)
        if simulated_count() and isinstance(spec.simulator, Unsupported):
            raise Refusal("simulator", f"backend {name!r}: {spec.simulator.reason}")
        backend = load_backend(name)
    except SimulationError as error:
        raise Refusal("simulator", str(error)) from error
    except UnidevError as error:
        raise Refusal("backend", str(error)) from error
    unidev.set_backend(name)
    return backend


def described(backend: Backend, profile: str, checks: Sequence[Check]) -> Session:
    """The session's first event.

    What the backend cannot even say of itself is told as it failed: judging is the checks' work.
    """
    return Session(
        suite_version=SUITE_VERSION,
        unidev_version=unidev.__version__,
        backend=backend.name,
        framework=backend.spec.framework,
        framework_version=framework_version(backend),
        python=platform.python_version(),
        platform=platform.platform(),
        profile=profile,
        simulated=backend.simulated_count,
        devices=_devices(),
        capabilities=_capabilities(backend),
        checks=tuple(each.entry() for each in checks),
    )


def framework_version(backend: Backend) -> str:
    """What the framework calls its version, else its distribution's, else ``unknown``."""
    module = sys.modules.get(backend.spec.framework)
    found = getattr(module, "__version__", None)
    if isinstance(found, str):
        return found
    for distribution in metadata.packages_distributions().get(backend.spec.framework, ()):
        return metadata.version(distribution)
    return "unknown"


def _devices() -> tuple[DeviceEntry, ...]:
    try:
        return tuple(_entry(device) for device in unidev.list_devices())
    except Exception:  # noqa: BLE001  `devices.not_empty` judges that; the report goes on without
        return ()


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


def _capabilities(backend: Backend) -> dict[str, Capability]:
    try:
        return capabilities(backend)
    except Exception as error:  # noqa: BLE001  as above: a probe that does not even load
        from unidev.conformance.events import Capability

        return {"probe": Capability(supported=False, reason=f"{type(error).__name__}: {error}")}
