"""The report: what was run, on what, and the results.

Everything that is shown (terminal, JSON, Markdown, JUnit) is made from this, never from the run.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from unidev_conformance.events import CHILD_RESULTS, CheckEntry

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from unidev.backends.description import Capability, DeviceEntry

RESULTS = (*CHILD_RESULTS, "crash", "timeout", "not-run")
"""Every possible result: a child's own, and the parent's for a child that stopped reporting."""


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """A set of devices on which the checks were run."""

    name: str
    """``host``, or ``simulate-4``."""
    simulated: int
    devices: tuple[DeviceEntry, ...] = ()
    capabilities: Mapping[str, Capability] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    """Problems that fail the run and belong to no check, such as an expired expectation."""
    interruptions: tuple[str, ...] = ()
    """Why the run is incomplete: a child that did not start, or that ended early."""
    remarks: tuple[str, ...] = ()
    """Observations that do not affect the verdict."""


@dataclass(frozen=True, kw_only=True)
class Header:
    """The backend, environment, selection and checks that were judged."""

    suite_version: str
    unidev_version: str
    backend: str
    framework: str
    framework_version: str
    python: str
    platform: str
    profile: str
    selection: tuple[str, ...] | None
    """The checks that ``--only`` named, or ``--quick`` drew; None for the whole profile."""
    command: str
    started: str
    """When, in UTC, as ISO 8601."""
    seconds: float
    timeout_s: float
    notes: tuple[str, ...]
    """Notes for interpreting the verdict: no simulator, interrupted."""
    checks: tuple[CheckEntry, ...]
    """The profile's complete list, run or not."""
    configurations: tuple[Configuration, ...]
    is_quick: bool = False
    """Whether ``--quick`` drew the selection."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """The result of one check in one configuration."""

    check: str
    configuration: str
    profile: str
    required: bool
    result: str
    """One of ``RESULTS``."""
    seconds: float
    devices: tuple[str, ...]
    message: str
    evidence: Mapping[str, Any]
    reproduce: str
    """A command line that repeats just this."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """A header and the results, one for each check that was selected in each configuration."""

    header: Header
    results: tuple[Result, ...]

    @property
    def selected(self) -> tuple[CheckEntry, ...]:
        """The selected checks."""
        wanted = self.header.selection
        return tuple(c for c in self.header.checks if wanted is None or c.check in wanted)

    def result(self, check: str, configuration: str) -> Result | None:
        """The result of ``check`` in ``configuration``."""
        for each in self.results:
            if (each.check, each.configuration) == (check, configuration):
                return each
        return None


def counts(results: Iterable[Result]) -> dict[str, int]:
    """The number of results of each kind; kinds that did not occur are left out."""
    found = Counter(each.result for each in results)
    return {kind: found[kind] for kind in RESULTS if found[kind]}
