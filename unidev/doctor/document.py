"""The diagnosis as JSON; the schema is described in ``docs/doctor.md``."""

from __future__ import annotations

import dataclasses
import platform
from typing import TYPE_CHECKING, Any

from unidev.doctor.diagnosis import is_healthy
from unidev.system.version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unidev.doctor.facts import Case, Finding, Framework
    from unidev.system.facts import Driver, Gpu, GpuProcess

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
    build = framework.build
    return {
        "backend": framework.backend,
        "framework": framework.framework,
        "version": framework.version,
        "state": framework.state,
        "problem": framework.problem,
        "gpus_seen": framework.gpus_seen,
        "gpus_expected": case.expected(framework),
        "build": build
        and {
            **_listed(dataclasses.asdict(build)),
            "conflicts": [each._asdict() for each in build.conflicts],
            "wheels": [each._asdict() for each in build.wheels],
        },
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
        "drivers": [_driver(case, each) for each in machine.drivers],
        "environment": dict(machine.environment),
    }


def _driver(case: Case, driver: Driver) -> dict[str, Any]:
    gpus = [_gpu(case, each) for each in driver.gpus]
    return {**_listed(dataclasses.asdict(driver)), "gpus": gpus}


def _gpu(case: Case, gpu: Gpu) -> dict[str, Any]:
    return {
        **dataclasses.asdict(gpu),
        "processes": [_process(case, each) for each in gpu.processes],
        "parts": [_gpu(case, each) for each in gpu.parts],
    }


def _process(case: Case, process: GpuProcess) -> dict[str, Any]:
    """Its frameworks, in place of its libraries: there are hundreds of those."""
    found = dataclasses.asdict(process)
    del found["libraries"]
    return {**found, "frameworks": [each.title for each in case.frameworks_in(process)]}


def _listed(value: Any) -> Any:
    """Convert tuples to lists, as JSON does."""
    if isinstance(value, dict):
        return {name: _listed(each) for name, each in value.items()}
    return [_listed(each) for each in value] if isinstance(value, (list, tuple)) else value
