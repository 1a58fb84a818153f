"""The samples that scores are taken from, as a list: files may move, and the faults stay the same.

``sample`` draws by the paths of modules, so a moved file would change what is drawn. A listed fault
has its module, function and diff, and is found again wherever that function's lines are.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from mutation.faults import Fault, function_at
from mutation.modules import source_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LIST = Path(__file__).with_name("faults.jsonl")


class Frozen:
    """The list in ``faults.jsonl``: a line for each fault, in the order in which it was drawn."""

    def __init__(self, path: Path = LIST) -> None:
        self._path = path
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        self._entries = [json.loads(line) for line in lines]

    def count(self, sample: str) -> int:
        """The number of faults listed for a sample, such as ``torch-train-1``."""
        return sum(entry["sample"] == sample for entry in self._entries)

    def add(self, sample: str, faults: Sequence[Fault]) -> None:
        """List a sample.

        Raises:
            ValueError: it is listed already, and scores have been taken from it.
        """
        if self.count(sample):
            raise ValueError(f"{sample} is listed in {self._path.name}: its scores would change")
        keys = ("module", "function", "operator", "line", "diff")
        entries = [{"sample": sample, **{k: getattr(each, k) for k in keys}} for each in faults]
        with self._path.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(entry) + "\n" for entry in entries)
        self._entries += entries

    def faults(self, root: Path, sample: str, count: int) -> tuple[list[Fault], list[str]]:
        """The first ``count`` faults of a sample as the code is now, and those that are gone."""
        listed = [entry for entry in self._entries if entry["sample"] == sample][:count]
        folders = (root / source_folder(sample.partition("-")[0]), root / "unidev")
        found = [(entry, _found(root, folders, entry)) for entry in listed]
        gone = [f"{e['module']}:{e['function']}: {e['diff']}" for e, fault in found if not fault]
        return [fault for _, fault in found if fault], gone


def _found(root: Path, folders: Sequence[Path], entry: dict[str, str]) -> Fault | None:
    """The fault in its module, or else in the one other module that has its function's lines."""
    named = root / entry["module"]
    there = list(_in_module(root, named, entry)) if named.exists() else []
    if not there:
        paths = {path for folder in folders for path in folder.rglob("*.py")}
        there = [fault for path in sorted(paths) for fault in _in_module(root, path, entry)]
        there = [each for each in there if Path(each.module).name == named.name] or there
        if len({each.module for each in there}) > 1:  # one of them is another fault
            return None
    return min(there, key=lambda fault: abs(fault.line - int(entry["line"])), default=None)


def _in_module(root: Path, path: Path, entry: dict[str, str]) -> Iterator[Fault]:
    source, hunks = path.read_text(encoding="utf-8"), _hunks(entry["diff"])
    lines = source.splitlines()
    for start, line in enumerate(lines):
        if line == hunks[0][0][0] and function_at(source, start + 1) == entry["function"]:
            code = _applied(lines, start, hunks)
            if code:
                module = str(path.relative_to(root))
                yield Fault(
                    module, entry["operator"], 0, start + 1, entry["function"], entry["diff"], code
                )


def _hunks(diff: str) -> list[tuple[list[str], list[str]]]:
    """The removed and the added lines of each place that a diff changes."""
    found: list[tuple[list[str], list[str]]] = []
    for line in diff.splitlines():
        if line.startswith("-"):
            if not found or found[-1][1]:
                found.append(([], []))
            found[-1][0].append(line[1:])
        else:
            found[-1][1].append(line[1:])
    return found


def _applied(lines: list[str], at: int, hunks: list[tuple[list[str], list[str]]]) -> str:
    """The module with the first hunk at that line, and each other after it; empty if one is not."""
    made: list[str] = []
    done = 0
    for removed, added in hunks:
        size = len(removed)
        while made and at < len(lines) and lines[at : at + size] != removed:
            at += 1  # the place of the first is given, and others follow
        if lines[at : at + size] != removed:
            return ""
        made += [*lines[done:at], *added]
        at = done = at + size
    return "\n".join([*made, *lines[done:]]) + "\n"
