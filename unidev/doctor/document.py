"""The diagnosis as JSON; the schema is described in ``docs/doctor.md``."""

from __future__ import annotations

import dataclasses
import platform
from typing import TYPE_CHECKING, Any

from unidev.doctor.diagnosis import is_healthy
from unidev.system.facts import GpuProcess
from unidev.system.version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unidev.doctor.facts import Case, Finding, Framework

SCHEMA = 2
"""Raised when a field is removed or changes its meaning, not when one is added."""


def to_document(case: Case, findings: Sequence[Finding]) -> dict[str, Any]:
    """The complete diagnosis, as plain values."""
    return {
        "schema": SCHEMA,
        "unidev": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "healthy": is_healthy(case, findings),
        "findings": [_finding(each) for each in findings],
        "frameworks": [_framework(case, each) for each in case.frameworks],
        "machine": _machine(case),
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "cause": finding.cause,
        "title": finding.title,
        "blocking": finding.is_blocking,
        "backend": finding.backend,
        "evidence": list(finding.evidence),
        "remedies": [dataclasses.asdict(each) for each in finding.remedies],
        "link": finding.link,
    }


def _framework(case: Case, framework: Framework) -> dict[str, Any]:
    return {
        "backend": framework.backend,
        "framework": framework.framework,
        "version": framework.version,
        "state": framework.state,
        "problem": framework.problem,
        "gpus_seen": framework.gpus_seen,
        "gpus_expected": case.expected(framework),
        "build": _plain(case, framework.build),
    }


def _machine(case: Case) -> dict[str, Any]:
    machine = case.machine
    return {
        "system": machine.system,
        "distribution": machine.distribution,
        "wsl": machine.is_wsl,
        "container": machine.container,
        "pci_devices": machine.pci_count,
        "gpus_on_bus": [dataclasses.asdict(each) for each in machine.gpus_on_bus],
        "nvidia_kernel": machine.nvidia_kernel,
        "device_files": [
            {"path": each.path, "accessible": each.is_accessible} for each in machine.device_files
        ],
        "drivers": _plain(case, machine.drivers),
        "environment": dict(machine.environment),
    }


def _plain(case: Case, value: Any) -> Any:
    """``value`` as JSON has it: dataclasses and named tuples as objects, other tuples as lists."""
    if hasattr(value, "_asdict"):
        return value._asdict()
    if isinstance(value, tuple):
        return [_plain(case, each) for each in value]
    if not dataclasses.is_dataclass(value):
        return value
    names = [each.name for each in dataclasses.fields(value)]
    found = {name: _plain(case, getattr(value, name)) for name in names}
    if isinstance(value, GpuProcess):  # its frameworks: of libraries, there are hundreds
        del found["libraries"]
        found["frameworks"] = [each.title for each in case.frameworks_in(value)]
    return found
