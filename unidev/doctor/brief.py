"""The first cause and its remedy, for the error that ``unidev.gpu()`` raises without a GPU.

Runs in the user's process, so it checks only what is harmless and quick: files, variables, NVIDIA's
driver (not CUDA), and what the loaded framework was built for. Starts no process.
"""

from __future__ import annotations

import os
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from unidev.backends.discovery import backend_specs
from unidev.backends.known_frameworks import KnownFramework, with_described
from unidev.contract.backend import Unsupported
from unidev.doctor.diagnosis import diagnose
from unidev.doctor.facts import Case, Framework
from unidev.system.facts import NO_ANSWER
from unidev.system.late_changes import changes
from unidev.system.machine import read_machine, relevant
from unidev.system.processes import this_process

if TYPE_CHECKING:
    from unidev.contract.backend import Backend
    from unidev.doctor.facts import Finding
    from unidev.system.facts import Machine

_WAIT_S = 3.0


def why_no_gpu(backend: Backend) -> str:
    """Two sentences and a pointer to ``unidev doctor``; never raises."""
    try:
        finding = _first(backend)
    except Exception:  # noqa: BLE001  used in an error message, which must be raised in any case
        finding = None
    return "Run `unidev doctor` to find out why." if finding is None else in_short(finding)


def in_short(finding: Finding) -> str:
    """The cause, its first remedy, and a pointer to ``unidev doctor``."""
    remedy = finding.remedies[0]
    reason = f"{finding.title} {remedy.text}"
    if remedy.command:
        reason = f"{reason.rstrip('.')}: `{remedy.command}`."
    elif finding.link and finding.backend:  # then the remedy refers to the framework's page
        reason = f"{reason.rstrip('.')}: {finding.link}"
    return f"Why: {reason} For details, run `unidev doctor`."


def _first(backend: Backend) -> Finding | None:
    machine = replace(_machine(), environment=relevant(os.environ))
    if machine.driver("cuda").state == NO_ANSWER:
        return None  # left to the doctor, which waits longer for an answer
    installation, gpus_seen = backend.installation, backend.device_count("gpu")
    build = None if isinstance(installation, Unsupported) else installation.build()
    framework = Framework(backend.name, backend.spec.framework, build=build, gpus_seen=gpus_seen)
    case = Case(
        machine,
        (framework,),
        replace(this_process(), changes=changes()),
        with_described(map(KnownFramework.of, backend_specs().values())),
    )
    return next(iter(diagnose(case)), None)


@lru_cache(maxsize=1)
def _machine() -> Machine:
    """Read once per process: a driver can take a second to wake up."""
    return read_machine(os.environ, wait_s=_WAIT_S)
