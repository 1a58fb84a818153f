"""The table of what each backend supports, as reported by the backends themselves."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from unidev.backends.description import abilities
from unidev.system.atomic_file import write_whole
from unidev.system.tables import cell

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    Answer = dict[str, Any]
    Columns = dict[str, dict[str, tuple[str, str]]]
    """For each backend and each label: a word, and its reason if there is one."""

_OF_LINKS = ":/?#[]@!$&'()*+,;=%"
"""Characters that a link may contain, besides letters and digits."""

NEEDS_A_GPU = "it needs a GPU"
"""How reasons begin that are the machine's, not the backend's."""
UNKNOWN = ("?", "")
"""The cell of a backend that has no probe that could report it."""
BEGIN, END = "<!-- capabilities -->", "<!-- /capabilities -->"


class MarkersError(ValueError):
    """A file has no markers for the table."""


def working(document: Answer) -> list[Answer]:
    """The plugins whose backend could be loaded."""
    return [each for each in document["plugins"] if each["state"] == "works" and each["backend"]]


def to_markdown(document: Answer) -> str:
    """The table; a "no", and a "needs a GPU", has its reason in a numbered note below."""
    return rendered(_columns(document), abilities().values())


def _columns(document: Answer) -> Columns:
    return {
        cell(each["backend"]): {
            label: _cell(each["capabilities"].get(ability))
            for ability, label in abilities().items()
        }
        for each in working(document)
    }


def rendered(columns: Mapping[str, Mapping[str, tuple[str, str]]], labels: Iterable[str]) -> str:
    """A row for each label, and the reasons as numbered notes below; as of any such table."""
    notes: list[str] = []
    lines = [f"| | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for label in labels:
        cells = [_numbered(column.get(label, UNKNOWN), notes) for column in columns.values()]
        lines.append(f"| {label} | {' | '.join(cells)} |")
    lines.append("")
    lines += [f"{number}. {note}" for number, note in enumerate(notes, start=1)]
    return "\n".join(lines).rstrip() + "\n"


def update(path: Path, document: Answer, *, is_check: bool) -> bool:
    """Put the table between the markers in a file; returns whether it was there already.

    Columns of backends that are not installed here are kept as they are: no environment holds all
    frameworks, since MXNet needs NumPy 1 and JAX NumPy 2. With ``is_check``, nothing is written.

    Raises:
        MarkersError: the file has no markers.
    """
    text = path.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    old, end, after = rest.partition(END)
    if not begin or not end:
        raise MarkersError(f"{path} has no lines {BEGIN} and {END} to put the table between.")
    columns = {**columns_of(old), **_columns(document)}
    # In one order, wherever it is made: NumPy's, then the others by name.
    names = sorted(columns, key=lambda name: (name != "numpy", name))
    table = rendered({name: columns[name] for name in names}, abilities().values())
    new = f"{before}{BEGIN}\n{table}{END}{after}"
    if new != text and not is_check:
        write_whole(path, new)
    return new == text


def columns_of(table: str) -> Columns:
    """The columns of a table that ``rendered`` made; none, of anything else."""
    rows = [
        [part.strip() for part in re.split(r"(?<!\\)\|", line)[1:-1]]  # one in a cell is escaped
        for line in table.splitlines()
        if line.startswith("| ")
    ]
    if not rows:
        return {}
    (_, *names), *rows = rows
    notes = dict(re.findall(r"^(\d+)\. (.*)$", table, re.MULTILINE))
    columns: Columns = {name: {} for name in names}
    for label, *cells in rows:
        for name, text in zip(names, cells, strict=True):
            word, _, number = text.partition(" (")
            columns[name][label] = (word, notes.get(number.rstrip(")"), ""))
    return columns


def _cell(capability: Answer | None) -> tuple[str, str]:
    if capability is None:
        return UNKNOWN
    if capability["supported"]:
        return "yes", ""
    word = "needs a GPU" if (capability["reason"] or "").startswith(NEEDS_A_GPU) else "no"
    link = f" (<{quote(capability['link'], safe=_OF_LINKS)}>)" if capability["link"] else ""
    return word, f"{cell(capability['reason'] or 'no reason given')}{link}"


def _numbered(content: tuple[str, str], notes: list[str]) -> str:
    """A word, with the number of its note."""
    word, note = content
    if not note:
        return word
    if note not in notes:
        notes.append(note)
    return f"{word} ({notes.index(note) + 1})"
