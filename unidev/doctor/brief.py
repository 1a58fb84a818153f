"""The first cause and its remedy, for the error of ``unidev.gpu()`` where there is no GPU.

Asked in the user's process, so only what is harmless and quick: files, variables, NVIDIA's driver
(not CUDA), and what the loaded framework was built for. Starts no process.
"""

from __future__ import annotations

import os
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from unidev.contract.backend import Unsupported
from unidev.doctor.diagnosis import diagnose
from unidev.doctor.facts import Case, Framework
from unidev.hardware.facts import NO_ANSWER
from unidev.hardware.machine import read_machine, relevant
from unidev.hardware.processes import this_process

if TYPE_CHECKING:
    from unidev.contract.backend import Backend
    from unidev.doctor.facts import Finding
    from unidev.hardware.facts import Machine

_WAIT_S = 3.0


def why_no_gpu(backend: Backend) -> str:
    """Two sentences and a pointer to ``unidev doctor``; never raises."""
    try:
        finding = _first(backend)
    except Exception:  # noqa: BLE001  it stands in an error message, which must come in any case
        return "`unidev doctor` says why."
    return "`unidev doctor` says why." if finding is None else in_short(finding)


def in_short(finding: Finding) -> str:
    """The cause, its first remedy, and who says more."""
    remedy = finding.remedies[0]
    told = f"{finding.title} {remedy.text}"
    if remedy.command:
        told = f"{told.rstrip('.')}: `{remedy.command}`."
    elif finding.link and finding.backend:  # then the remedy speaks of the framework's page
        told = f"{told.rstrip('.')}: {finding.link}"
    return f"Why: {told} `unidev doctor` says more."


def _first(backend: Backend) -> Finding | None:
    machine = replace(_machine(), environment=relevant(os.environ))
    if machine.driver("cuda").state == NO_ANSWER:
        return None  # whether it answers at all is the doctor's to find out
    case = Case(machine, (_as_installed(backend),), this_process())
    return next(iter(diagnose(case)), None)


def _as_installed(backend: Backend) -> Framework:
    installation = backend.installation
    build = None if isinstance(installation, Unsupported) else installation.build()
    return Framework(
        backend.name,
        backend.spec.framework,
        build=build,
        gpus_seen=backend.device_count("gpu"),
    )


@lru_cache(maxsize=1)
def _machine() -> Machine:
    """Asked once a process: a driver can take a second to wake up."""
    return read_machine(os.environ, wait_s=_WAIT_S)
