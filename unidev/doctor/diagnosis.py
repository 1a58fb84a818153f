"""Finds the causes in a case, in the order in which to fix them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unidev.doctor.driver_causes import driver, single_gpus
from unidev.doctor.environment_causes import changed_too_late, chosen_backend, fork, variables
from unidev.doctor.framework_causes import frameworks, unexplained
from unidev.doctor.hardware_causes import no_gpu, simulated
from unidev.doctor.memory_causes import memory
from unidev.system.facts import WORKS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unidev.doctor.facts import Case, Finding

RANKING = (
    "backend", "simulated", "fork", "no-gpu", "wsl", "reserved", "nouveau", "container",
    "no-device-files", "no-permission", "no-driver", "driver-mismatch", "driver-fails", "gpu-lost",
    "gpu-not-permitted", "changed-too-late", "visible-devices", "no-framework", "framework-broken",
    "cpu-only-wheel", "other-wheel", "driver-too-old", "parts-conflict", "library-missing",
    "no-code", "unexplained", "two-frameworks", "memory-taken",
)  # fmt: skip
"""Causes from the lowest layer up: fixing a later one has no effect before the earlier ones.

Blocking findings come first; the others follow in the same order.
"""

_CAUSES = (
    chosen_backend,
    simulated,
    fork,
    no_gpu,
    driver,
    single_gpus,
    changed_too_late,
    variables,
    frameworks,
    memory,
)


def diagnose(case: Case) -> list[Finding]:
    """Every cause, in the order in which to fix them."""
    found = [finding for cause in _CAUSES for finding in cause(case)]
    found += unexplained(case, found)
    return sorted(
        found,
        key=lambda each: (not each.is_blocking, RANKING.index(each.cause), each.backend or ""),
    )


def is_healthy(case: Case, findings: Sequence[Finding]) -> bool:
    """Whether there is a GPU, and every framework sees every one that is visible to it."""
    able = [each for each in case.frameworks if each.takes_gpus]
    is_blocked = any(each.is_blocking for each in findings)
    # One that is expected to see none, and does, has no GPU to use.
    sound = [x for x in able if x.state == WORKS and x.gpus_seen and case.sees_all(x)]
    return bool(able) and not is_blocked and sound == able
