"""Known failures, listed by a backend's author in ``expectations.toml`` beside its module.

    [[expected]]
    check = "copy.strings_ragged_sparse"
    condition = "simulated and framework_version < 3.4"
    reason = "copies of sparse tensors share their indices"
    link = "https://…"
    expires = 2027-03-01

``condition`` is ``always``, or terms joined by ``and``: ``simulated``, ``hardware``, or
``framework_version``, ``python_version`` and ``sys_platform``, compared with something.

An expectation is a debt: the run fails if an expectation's check passes, does not exist or is
required by a profile, or if its date has passed.
"""

from __future__ import annotations

import datetime
import inspect
import platform
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found, unused-ignore]

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from unidev.contract.backend import Backend
    from unidev_conformance.judging.check import Check

FILE = "expectations.toml"
_FIELDS = {"check": str, "condition": str, "reason": str, "link": str, "expires": datetime.date}
_COMPARISON = re.compile(r"(\w+)\s*(<=|>=|==|!=|<|>)\s*([\w.+-]+)", re.ASCII)


class ExpectationError(ValueError):
    """A file of expectations that cannot be read, or a condition that cannot be parsed."""


@dataclass(frozen=True, kw_only=True)
class Expectation:
    """One known failure."""

    check: str
    condition: str
    reason: str
    link: str
    expires: datetime.date

    @property
    def described(self) -> str:
        """Reason, link and date, for the report."""
        return f"{self.reason} ({self.link}; expected until {self.expires})"


@dataclass(frozen=True)
class Configuration:
    """The facts that conditions test."""

    simulated: int
    framework_version: str

    def meets(self, condition: str) -> bool:
        """Whether ``condition`` holds here.

        Raises:
            ExpectationError: it cannot be parsed.
        """
        return all(self._meets_term(term.strip()) for term in condition.split(" and "))

    def _meets_term(self, term: str) -> bool:
        words = {"always": True, "simulated": self.simulated > 0, "hardware": self.simulated == 0}
        if term in words:
            return words[term]
        match = _COMPARISON.fullmatch(term)
        if match is None:
            raise ExpectationError(f"the condition {term!r} is not {', '.join(words)}, or a test")
        name, operator, wanted = match.groups()
        if name == "sys_platform" and operator in ("==", "!="):
            return (sys.platform == wanted) is (operator == "==")
        versions = {
            "framework_version": self.framework_version,
            "python_version": platform.python_version(),
        }
        if name not in versions:
            raise ExpectationError(f"the condition {term!r} compares something unknown")
        return _compare(versions[name], operator, wanted)


def load_expectations(backend: Backend) -> list[Expectation]:
    """The expectations in the file beside the module of ``backend``; none if there is no file.

    Raises:
        ExpectationError: the file is invalid; says where.
    """
    path = Path(inspect.getfile(type(backend))).with_name(FILE)
    if not path.is_file():
        return []
    try:
        with path.open("rb") as file:
            content = tomllib.load(file)
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise ExpectationError(f"{FILE} cannot be read: {error}") from error
    if set(content) - {"expected"}:
        raise ExpectationError(f"{FILE} may only have tables [[expected]], not {list(content)}")
    tables = content.get("expected", [])
    if not isinstance(tables, list) or not all(isinstance(each, dict) for each in tables):
        raise ExpectationError(f"{FILE}: each expectation must be a separate table, [[expected]]")
    return [_parsed(fields) for fields in tables]


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
        and configuration.meets(each.condition)
    }


def _parsed(fields: Mapping[str, Any]) -> Expectation:
    for name, kind in _FIELDS.items():
        value = fields.get(name)
        # To Python a date and time is a date, but cannot be compared with one.
        if not isinstance(value, kind) or isinstance(value, datetime.datetime) or value == "":
            raise ExpectationError(
                f"{FILE}: {dict(fields)} needs {name}, a {'date' if name == 'expires' else 'text'}"
            )
    if set(fields) - set(_FIELDS):
        raise ExpectationError(f"{FILE}: unknown fields {sorted(set(fields) - set(_FIELDS))}")
    Configuration(0, "0").meets(fields["condition"])  # raises if the condition cannot be parsed
    return Expectation(**fields)


def _compare(found: str, operator: str, wanted: str) -> bool:
    left, right = _numbers(found), _numbers(wanted)
    length = max(len(left), len(right))
    left += (0,) * (length - len(left))
    right += (0,) * (length - len(right))
    return {
        "<": left < right, "<=": left <= right, "==": left == right,
        "!=": left != right, ">": left > right, ">=": left >= right,
    }[operator]  # fmt: skip


def _numbers(version: str) -> tuple[int, ...]:
    """The release numbers: 2, 13 and 0 for ``2.13.0+cpu`` and ``2.13.0rc1``."""
    match = re.match(r"\d+(?:\.\d+)*", version)
    if match is None:
        raise ExpectationError(f"{version!r} is not a version")
    return tuple(int(part) for part in match[0].split("."))
