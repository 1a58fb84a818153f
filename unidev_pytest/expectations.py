"""Known failures in a file, of tests or of the conformance suite's checks; the suite shares this.

    [[expected]]
    check = "tests/test_signal.py::test_hilbert[gpu:*-torch]"
    condition = "simulated and framework_version < 3.4"
    reason = "it makes its filter on the default device"
    link = "https://…"
    expires = 2027-03-01

``check`` is a test as pytest names it, with or without its parameters; ``*`` is any text.
``condition`` is ``always``, or terms joined by ``and``: ``simulated``, ``hardware``, or
``framework_version``, ``python_version`` and ``sys_platform``, compared with something.

An expectation is a debt: the run fails if its check passes or does not exist, or if its date has
passed.
"""

from __future__ import annotations

import datetime
import operator
import os
import platform
import re
import sys
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found, unused-ignore]

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

_FIELDS = {"check": str, "condition": str, "reason": str, "link": str, "expires": datetime.date}
_COMPARISON = re.compile(r"(\w+)\s*(<=|>=|==|!=|<|>)\s*([\w.+-]+)", re.ASCII)
_COMPARE = {
    "<": operator.lt, "<=": operator.le, "==": operator.eq,
    "!=": operator.ne, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


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


def read(path: Path) -> list[Expectation]:
    """The expectations in the file.

    Raises:
        ExpectationError: it cannot be read, or is invalid; says where.
    """
    try:
        with path.open("rb") as file:
            content = tomllib.load(file)
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise ExpectationError(f"{path.name} cannot be read: {error}") from error
    tables = content.get("expected", [])
    if set(content) - {"expected"}:
        raise ExpectationError(f"{path.name} may only have tables [[expected]]")
    if not isinstance(tables, list) or not all(isinstance(each, dict) for each in tables):
        raise ExpectationError(f"{path.name}: each is a separate table, [[expected]]")
    return [_parsed(fields, path.name) for fields in tables]


def _parsed(fields: Mapping[str, Any], file: str) -> Expectation:
    for name, kind in _FIELDS.items():
        value = fields.get(name)
        # To Python a date and time is a date, but cannot be compared with one.
        if not isinstance(value, kind) or isinstance(value, datetime.datetime) or value == "":
            raise ExpectationError(
                f"{file}: {dict(fields)} needs {name}, a {'date' if name == 'expires' else 'text'}"
            )
    if set(fields) - set(_FIELDS):
        raise ExpectationError(f"{file}: unknown fields {sorted(set(fields) - set(_FIELDS))}")
    meets(fields["condition"], 0, lambda: "0")  # raises if it cannot be parsed
    return Expectation(**fields)


def meets(condition: str, simulated: int, framework_version: Callable[[], str]) -> bool:
    """Whether ``condition`` holds, with so many simulated GPUs and that version.

    Raises:
        ExpectationError: it cannot be parsed.
    """
    terms = map(str.strip, condition.split(" and "))
    return all(_meets_term(term, simulated, framework_version) for term in terms)


def _meets_term(term: str, simulated: int, framework_version: Callable[[], str]) -> bool:
    from unidev.backends.versions import release

    words = {"always": True, "simulated": simulated > 0, "hardware": simulated == 0}
    if term in words:
        return words[term]
    match = _COMPARISON.fullmatch(term)
    if match is None:
        raise ExpectationError(f"the condition {term!r} is not {', '.join(words)}, or a test")
    name, sign, wanted = match.groups()
    if name == "sys_platform" and sign in ("==", "!="):
        return (sys.platform == wanted) is (sign == "==")
    versions = {"framework_version": framework_version, "python_version": platform.python_version}
    if name not in versions or not release(wanted):
        raise ExpectationError(f"the condition {term!r} compares something unknown")
    left, right = release(versions[name]()), release(wanted)
    length = max(len(left), len(right))
    return bool(_COMPARE[sign](*(each + (0,) * (length - len(each)) for each in (left, right))))


def ledger(path: Path) -> list[Expectation]:
    """The expectations in the file.

    Raises:
        ExpectationError: as ``read``; or one has expired.
    """
    found = read(path)
    for each in found:
        if each.expires < datetime.date.today():
            raise ExpectationError(
                f"{path.name}: what is said of {each.check} expired on {each.expires}: see whether "
                f"{each.link} has been resolved"
            )
    return found


def mark_known(known: list[Expectation], items: list[Any], *, is_whole: bool) -> None:
    """Mark the tests that are listed as strict ``xfail``.

    Where a whole file was collected (``is_whole``), an entry that names none of its tests fails the
    file's first. Not the run, since pytest-xdist would hide why.
    """
    simulated = int(os.environ.get("UNIDEV_SIMULATE") or 0)
    for each in known:
        pattern = re.compile(re.escape(each.check).replace(r"\*", ".*"))
        named = [
            item for item in items
            if any(map(pattern.fullmatch, (item.nodeid, item.nodeid.partition("[")[0])))
        ]  # fmt: skip
        file = each.check.partition("::")[0] + "::"
        first = next((item for item in items if item.nodeid.startswith(file)), None)
        if is_whole and not named and first is not None:
            wrong = f"unidev_expected: there is no test {each.check}"
            first.setup = partial(pytest.fail, wrong, pytrace=False)
        for item in named:
            if meets(each.condition, simulated, partial(_version_for, item)):
                item.add_marker(pytest.mark.xfail(reason=each.described, strict=True))


def _version_for(item: Any) -> str:
    """The version of the framework that a test runs on; imports it."""
    from unidev.backends.loading import load_backend
    from unidev.backends.selection import backend_choice
    from unidev.backends.versions import framework_version
    from unidev_pytest.devices import backend_of

    return framework_version(load_backend(backend_of(item) or backend_choice().name))
