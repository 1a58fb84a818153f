"""The races that simulated GPUs have lost, where they lose races (``UNIDEV_SIMULATE_LATE``)."""

from __future__ import annotations

import contextlib
import sys

from unidev.backends.discovery import backend_specs
from unidev.backends.loading import simulator_of
from unidev.errors import UnidevError
from unidev.system.settings import SIMULATE_LATE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from unidev.contract.backend_spec import Race, Simulator


def late_simulators() -> Iterator[Simulator]:
    """Those of the frameworks that are imported; none if no GPUs lose races."""
    for spec in backend_specs().values() if SIMULATE_LATE.value() else ():
        if spec.framework in sys.modules:
            with contextlib.suppress(UnidevError):  # it has no simulator
                yield simulator_of(spec)


def races() -> list[Race]:
    """All races of this process so far."""
    return [race for simulator in late_simulators() for race in simulator.races()]


def assert_no_races() -> None:
    """Raise an error if simulated GPUs have lost a race in this process so far.

    Does nothing on GPUs that do not lose races: see docs/races.md.

    Raises:
        AssertionError: they have; its text has both lines of each race, and what would order them.
    """
    if found := races():
        raise AssertionError("\n".join(map(str, found)))
