"""Known failures, listed by a backend's author in ``expectations.toml`` beside its module.

The form of the file is that of ``unidev_pytest.expectations``; ``check`` is a check's name.
Besides, no required check may be listed.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from unidev_pytest.expectations import Expectation, ExpectationError, meets, read

if TYPE_CHECKING:
    import datetime
    from collections.abc import Iterable, Mapping

    from unidev.contract.backend import Backend
    from unidev_conformance.judging.check import Check

__all__ = ["Expectation", "ExpectationError"]
FILE = "expectations.toml"


@dataclass(frozen=True)
class Configuration:
    """The facts that conditions test."""

    simulated: int
    framework_version: str


def load_expectations(backend: Backend) -> list[Expectation]:
    """The expectations in the file beside the module of ``backend``; none if there is no file.

    Raises:
        ExpectationError: the file is invalid; says where.
    """
    path = Path(inspect.getfile(type(backend))).with_name(FILE)
    return read(path) if path.is_file() else []


def problems_of(
    expectations: Iterable[Expectation], checks: Mapping[str, Check], today: datetime.date
) -> list[str]:
    """Errors in the expectations themselves, independent of the checks' results."""
    found = []
    for each in expectations:
        known = checks.get(each.check)
        if known is None:
            found.append(f"{FILE} expects a failure of {each.check!r}, which is not a check")
        elif known.required:
            found.append(f"{FILE} expects a failure of {each.check}, which the profile requires")
        if each.expires < today:
            found.append(
                f"{FILE}: the expectation about {each.check} expired on {each.expires}: see "
                f"whether {each.link} has been resolved"
            )
    return found


def expected_failures(
    expectations: Iterable[Expectation],
    checks: Mapping[str, Check],
    today: datetime.date,
    configuration: Configuration,
) -> dict[str, Expectation]:
    """The expectations that apply to this run, by check."""
    return {
        each.check: each
        for each in expectations
        if each.check in checks
        and not checks[each.check].required
        and each.expires >= today
        and meets(each.condition, configuration.simulated, lambda: configuration.framework_version)
    }
