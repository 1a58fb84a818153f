"""The table of what each backend supports, as reported by the backends themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from unidev.conformance.reports.markdown import cell
from unidev.registry.description import abilities
from unidev.support.atomic_file import write_whole

if TYPE_CHECKING:
    from pathlib import Path

    Answer = dict[str, Any]

_OF_LINKS = ":/?#[]@!$&'()*+,;=%"
"""Characters that a link may contain, besides letters and digits."""

NEEDS_A_GPU = "it needs a GPU"
"""How reasons begin that are the machine's, not the backend's."""
BEGIN, END = "<!-- capabilities -->", "<!-- /capabilities -->"


class MarkersError(ValueError):
    """A file has no markers for the table."""


def working(document: Answer) -> list[Answer]:
    """The plugins whose backend could be loaded."""
    return [each for each in document["plugins"] if each["state"] == "works"]


def to_markdown(document: Answer) -> str:
    """The table; a "no", and a "needs a GPU", has its reason in a numbered note below."""
    plugins = working(document)
    notes: list[str] = []
    lines = [
        f"| | {' | '.join(cell(each['backend']) for each in plugins)} |",
        "|---" * (len(plugins) + 1) + "|",
    ]
    for ability, label in abilities().items():
        cells = [_cell(each["capabilities"].get(ability), notes) for each in plugins]
        lines.append(f"| {label} | {' | '.join(cells)} |")
    lines.append("")
    lines += [f"{number}. {note}" for number, note in enumerate(notes, start=1)]
    return "\n".join(lines).rstrip() + "\n"


def update(path: Path, table: str, *, is_check: bool) -> bool:
    """Put ``table`` between the markers in a file; returns whether it was there already.

    With ``is_check``, nothing is written.

    Raises:
        MarkersError: the file has no markers.
    """
    text = path.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _old, end, after = rest.partition(END)
    if not begin or not end:
        raise MarkersError(f"{path} has no lines {BEGIN} and {END} to put the table between.")
    new = f"{before}{BEGIN}\n{table}{END}{after}"
    if new != text and not is_check:
        write_whole(path, new)
    return new == text


def _cell(capability: Answer | None, notes: list[str]) -> str:
    if capability is None:
        return "?"  # it has no probe that could report it
    if capability["supported"]:
        return "yes"
    word = "needs a GPU" if (capability["reason"] or "").startswith(NEEDS_A_GPU) else "no"
    link = f" (<{quote(capability['link'], safe=_OF_LINKS)}>)" if capability["link"] else ""
    note = f"{cell(capability['reason'] or 'no reason given')}{link}"
    if note not in notes:
        notes.append(note)
    return f"{word} ({notes.index(note) + 1})"
