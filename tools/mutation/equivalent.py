"""Faults that change nothing that a program could see, each with its reason."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from pathlib import Path

    from mutation.faults import Fault

MOST = 0.05
"""The largest share of a sample: more would say that survivors are explained away."""


class Equivalents:
    """The list in ``equivalent.toml``."""

    def __init__(self, path: Path) -> None:
        self._entries = tomllib.loads(path.read_text(encoding="utf-8")).get("equivalent", [])
        for entry in self._entries:
            if set(entry) != {"module", "function", "removed", "added", "reason"}:
                raise ValueError(f"{path}: an entry has other keys: {entry}")

    def reason(self, fault: Fault) -> str | None:
        """Why the fault changes nothing, if it is listed."""
        for entry in self._entries:
            place = entry["module"], entry["function"]
            if place == (fault.module, fault.function) and _diff(entry) == _plain(fault.diff):
                return str(entry["reason"])
        return None


def _diff(entry: dict[str, str]) -> str:
    return _plain(f"-{entry['removed']}\n+{entry['added']}")


def _plain(diff: str) -> str:
    return "\n".join(line[:1] + line[1:].strip() for line in diff.splitlines() if line.strip())
