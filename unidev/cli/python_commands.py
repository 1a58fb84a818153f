"""Whether a command is a Python that ignores PYTHONPATH or ``sitecustomize``."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_PYTHON = re.compile(r"(python|pypy)w?[\d.]*[dmtu]*(\.exe)?", re.IGNORECASE)
_WITH_VALUE = "WX"
_LAST = "cm"
"""Options after which all words are the program's."""
_REASONS = {
    "I": "ignores PYTHONPATH",
    "E": "ignores PYTHONPATH",
    "S": "does not import sitecustomize",
}


def unreached(program: str, arguments: Sequence[str]) -> str | None:
    """Why simulated GPUs would not reach the program at that path; None if nothing hinders them."""
    if _is_python(program):
        name, words = Path(program).name, list(arguments)
    else:
        name, words = _interpreter(program)
    for letter in _letters(words) if _is_python(name) else ():
        if letter in _REASONS:
            where = "" if _is_python(program) else f" in the first line of {program}"
            return (
                f"`{Path(name).name} -{letter}`{where} {_REASONS[letter]}, which brings the "
                f"simulated GPUs to the program: leave out -{letter}."
            )
    if _is_python(program) and any(Path(program).parent.glob("python*._pth")):
        return (
            f"{program} is an embeddable Python, whose ._pth file has it ignore PYTHONPATH, which "
            "brings the simulated GPUs to the program: use a full installation."
        )
    return None


def _is_python(program: str) -> bool:
    return _PYTHON.fullmatch(os.path.basename(program)) is not None


def _letters(words: Sequence[str]) -> Iterator[str]:
    """Each option of one letter that Python itself reads."""
    rest = iter(words)
    for word in rest:
        if word == "--check-hash-based-pycs":
            next(rest, None)
        elif word in ("-", "--") or not word.startswith("-"):
            return  # the program
        elif not word.startswith("--"):
            for position, letter in enumerate(word[1:], 2):
                yield letter
                if letter in _LAST:
                    return
                if letter in _WITH_VALUE:
                    if position == len(word):
                        next(rest, None)
                    break


def _interpreter(script: str) -> tuple[str, list[str]]:
    """The interpreter that the first line of a script names, and its options."""
    try:
        with open(script, "rb") as file:
            first = file.readline(512)
    except OSError:  # an executable that cannot be read is not a script
        return "", []
    if not first.startswith(b"#!"):
        return "", []
    name, *words = first[2:].decode(errors="replace").split() or [""]
    if os.path.basename(name) == "env":
        while words and (words[0].startswith("-") or "=" in words[0]):  # -S, NAME=VALUE
            words.pop(0)
        name, *words = words or [""]
    return name, words
