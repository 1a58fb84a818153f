"""Gathers the facts of a case, querying machine and frameworks at the same time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from unidev.backends.discovery import EMBEDDED, backend_specs, plugin_points
from unidev.backends.known_frameworks import KnownFramework, with_described
from unidev.backends.loading import missing_simulator
from unidev.backends.queries import ask_plugins
from unidev.contract.installation import Build, Conflict, Wheel
from unidev.doctor.facts import Case, Framework
from unidev.system.driver_process import driver_process
from unidev.system.late_changes import changes
from unidev.system.machine import read_machine
from unidev.system.processes import this_process
from unidev.system.settings import BACKEND, DETAILS, SIMULATE

if TYPE_CHECKING:
    from collections.abc import Mapping
    from importlib.metadata import EntryPoint

    from unidev.system.child_processes import Interruption

    Answer = dict[str, Any]

_REAL: dict[str, str] = {SIMULATE: "0", **dict.fromkeys(DETAILS, "")}
"""Queries the machine's own devices; simulated ones follow from the variables themselves."""
_LEFT_OUT = ("no framework", "disabled", "refused")


class UnknownBackendError(LookupError):
    """No installed plugin has a backend of that name, or its framework is not installed."""


def examine(
    environment: Mapping[str, str], backend: str | None, timeout_s: float, stop: Interruption
) -> Case:
    """Query the machine, its drivers and the frameworks.

    Raises:
        UnknownBackendError: there is no ``backend``, or its framework is not installed.
    """
    chosen: str = BACKEND.value(environment)
    # NVIDIA's driver may take seconds to wake up; importing the frameworks takes as long.
    with driver_process() as driver:
        frameworks, known = ask_frameworks(backend, timeout_s, stop)
        if backend is not None and not frameworks and not stop:
            there = ", ".join(sorted(point.name for point in plugin_points()))
            raise UnknownBackendError(
                f"there is no backend {backend!r} whose framework is installed; plugins: {there}. "
                "Run `unidev info` to see what is missing."
            )
        nvidia = driver.answer(timeout_s, stop)
    used = backend or chosen or (frameworks[0].backend if len(frameworks) == 1 else "")
    spec = backend_specs().get(used)
    return Case(
        read_machine(environment, nvidia=nvidia),
        frameworks,
        replace(this_process(), changes=changes()),
        known,
        chosen if backend is None and chosen else None,
        None if spec is None else missing_simulator(spec),
    )


def ask_frameworks(
    backend: str | None, timeout_s: float, stop: Interruption
) -> tuple[tuple[Framework, ...], tuple[KnownFramework, ...]]:
    """Every framework that is installed with its plugin, or only that of ``backend``.

    NumPy, which has no GPUs, is included only by name, as are backends that are not automatic. Then
    the frameworks that are known, also by plugins whose framework is not installed.
    """
    answers = ask_plugins("installation", _points(backend), timeout_s, stop, _REAL)
    asked = [each for each in answers if each["backend"] or not each["launcher"]]
    found = [to_framework(each) for each in asked if each["state"] not in _LEFT_OUT]
    by_name = {name for name, spec in backend_specs().items() if not spec.is_automatic}
    is_wanted = by_name.isdisjoint if backend is None else {backend}.issuperset
    wanted = tuple(each for each in found if is_wanted([each.backend]))
    described = [each["known"] for each in answers if each.get("known") is not None]
    return wanted, with_described(KnownFramework(**each) for each in described)


def _points(backend: str | None) -> list[EntryPoint]:
    points = list(plugin_points())
    # An entry point usually has the backend's name; if not, query all and keep one.
    named = [each for each in points if each.name == backend]
    return named or [each for each in points if each.name != EMBEDDED]


def to_framework(answer: Answer) -> Framework:
    """The framework that a plugin's process reported."""
    version = answer["framework_version"]
    return Framework(
        backend=answer["backend"] or answer["plugin"],
        framework=answer["framework"] or answer["plugin"],
        state=answer["state"],
        version=None if version == "unknown" else version,
        problem=answer["problem"],
        build=to_build(answer.get("build")),
        gpus_seen=answer.get("gpus_seen"),
        said=answer["said"],
    )


def to_build(answer: Answer | None) -> Build | None:
    """Convert a ``Build`` from JSON."""
    if answer is None:
        return None
    lists: Answer = {name: tuple(answer[name]) for name in ("architectures", "missing")}
    lists["conflicts"] = tuple(Conflict(*each) for each in answer["conflicts"])
    lists["wheels"] = tuple(Wheel(*each) for each in answer["wheels"])
    return Build(**{**answer, **lists})
