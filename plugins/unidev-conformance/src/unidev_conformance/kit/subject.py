"""The backend under judgement: loading it, and its description for the report."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

import unidev
from unidev.backends.description import DeviceEntry, capabilities, device_entries
from unidev.backends.discovery import backend_spec
from unidev.backends.loading import load_backend
from unidev.backends.simulation import simulated_count
from unidev.backends.versions import framework_version
from unidev.contract.backend import Unsupported
from unidev.errors import SimulationError, UnidevError
from unidev_conformance import SUITE_VERSION
from unidev_conformance.events import Session

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unidev.contract.backend import Backend
    from unidev_conformance.judging.check import Check


class Refusal(Exception):  # noqa: N818  it is what the event is called
    """There is nothing to judge."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        """One of ``events.REFUSALS``."""


def load_subject(name: str) -> Backend:
    """Load backend ``name``, and select it for the process.

    Raises:
        Refusal: it is not installed, or cannot have the requested simulated devices.
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

    If the backend fails to describe itself, the event has the failure: the checks judge it.
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
        devices=_devices(backend),
        capabilities=capabilities(backend),
        checks=tuple(each.entry() for each in checks),
    )


def _devices(backend: Backend) -> tuple[DeviceEntry, ...]:
    try:
        return device_entries(backend)
    except Exception:  # noqa: BLE001  `devices.not_empty` judges that; the report goes on without
        return ()
