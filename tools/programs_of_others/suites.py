"""The suites in ``suites.toml``: what each needs, where its tests are, what is left out and why."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from pathlib import Path

WHOSE = {
    "ours": "unidev's fault",
    "theirs": "the suite's own fault, also without unidev",
    "limit": "a limit that the page states",
    "network": "needs the network",
    "card": "needs a real card, or a package with kernels for one",
    "files": "needs files that its sdist lacks",
}
"""Who has to change something for a test to pass."""


@dataclass(frozen=True)
class Reason:
    """Why tests, named by a pattern such as ``*test_fp8*``, are left out or fail."""

    tests: str
    whose: str
    why: str

    def is_about(self, test: str) -> bool:
        """Whether the pattern matches the name ``module::Class::test``."""
        return fnmatchcase(test.replace("[", "("), self.tests.replace("[", "("))


@dataclass(frozen=True)
class Suite:
    """One row of the table."""

    name: str
    about: str
    requires: tuple[str, ...]
    tests: tuple[str, ...]
    """Files and folders, relative to the source, or to ``programs`` where ``ours`` is true."""
    like: str = ""
    """A suite whose environment it has, and whose fields where it has none of its own."""
    ours: bool = False
    sdist: str = ""
    checkout: str = ""
    """A file that a checkout of it has, by which a wrong folder is recognized."""
    checkout_of: str = ""
    options: tuple[str, ...] = ()
    variables: dict[str, str] = field(default_factory=dict)
    timeout: int = 300
    left_out: tuple[Reason, ...] = ()
    failing: tuple[Reason, ...] = ()


def read_suites(path: Path) -> dict[str, Suite]:
    """Every suite by its name."""
    tables = tomllib.loads(path.read_text(encoding="utf-8"))
    return {name: _suite(name, tables, path) for name in tables}


def _completed(tables: dict[str, Any], name: str) -> dict[str, Any]:
    """The table of a suite, with what it takes from another; reasons are its own."""
    own = tables[name]
    if "like" not in own:
        return {**own}
    other = _completed(tables, own["like"])
    shared = {key: other[key] for key in other if key not in {"left_out", "failing"}}
    return {**shared, **own, "like": other.get("like", own["like"])}


def _suite(name: str, tables: dict[str, Any], path: Path) -> Suite:
    table = _completed(tables, name)
    reasons: dict[str, tuple[Reason, ...]] = {}
    for key in ("left_out", "failing"):
        reasons[key] = tuple(Reason(**each) for each in table.pop(key, []))
        for reason in reasons[key]:
            if reason.whose not in WHOSE:
                raise ValueError(f"{path}: {name}: whose is {reason.whose!r}, not of {[*WHOSE]}")
    given: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in table.items()
    }
    return Suite(name=name, **given, left_out=reasons["left_out"], failing=reasons["failing"])
