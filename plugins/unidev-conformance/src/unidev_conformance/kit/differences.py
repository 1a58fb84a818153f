"""What was found, and what was expected, side by side, from where they begin to differ."""

from __future__ import annotations

import ast
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

_SHOWN_BYTES, _SHOWN_CHARACTERS = 32, 150
_NONE = "nothing"
_OF_ARRAYS = ("array_equal", "allclose")


def of_assertion(error: BaseException) -> str:
    """Both sides of the comparison that ``error`` is of, with the values of its frame."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    if at is None or not isinstance(error, AssertionError):
        return ""
    frame, line = at.tb_frame, at.tb_lineno
    file = Path(frame.f_code.co_filename)
    statements = ast.walk(ast.parse(file.read_text())) if file.is_file() else ()
    for node in statements:
        if isinstance(node, ast.Assert) and node.lineno <= line <= (node.end_lineno or 0):
            return compared(node.test, partial(_evaluated, {**frame.f_globals, **frame.f_locals}))
    return ""


def _evaluated(names: dict[str, Any], text: str) -> Any:
    return eval(text, names)  # noqa: S307  our own text


def compared(test: ast.AST | None, evaluate: Callable[[str], Any]) -> str:
    """Both sides of what compares for equality, evaluated again; nothing of anything else."""
    sides: list[ast.expr] = []
    if isinstance(test, ast.Compare) and [type(each) for each in test.ops] == [ast.Eq]:
        sides = [test.left, *test.comparators]
    elif isinstance(test, ast.Call) and getattr(test.func, "attr", "") in _OF_ARRAYS:
        sides = test.args[:2]
    try:
        return difference(*(evaluate(ast.unparse(x)) for x in sides)) if sides else ""
    except Exception:  # noqa: BLE001  whatever a second evaluation raises, the first one counts
        return ""


def difference(found: Any, expected: Any) -> str:
    """Both, in words, and where they begin to differ: a byte, an item, a name or a character."""
    if isinstance(found, np.ndarray) and isinstance(expected, np.ndarray):
        found, expected = found.tolist(), expected.tolist()
    if isinstance(found, dict) and isinstance(expected, dict):
        names = [n for n in {**expected, **found} if found.get(n, _NONE) != expected.get(n, _NONE)]
        has, wanted = (each.get(names[0], _NONE) for each in (found, expected))
        return f"{len(names)} differ, first {names[0]!r}: {difference(has, wanted)}"
    if not (isinstance(found, bytes) and isinstance(expected, bytes)):
        has, wanted = repr(found), repr(expected)
        at = next((i for i, (a, b) in enumerate(zip(has, wanted, strict=False)) if a != b), 0)
        start, end = max(0, at - _SHOWN_BYTES), at + _SHOWN_CHARACTERS
        said, other = (f"{'…' * (start > 0)}{x[start:at]}>{x[at:end]}" for x in (has, wanted))
        return f"found {said}, and not {other} (they differ from > on)"
    if len(found) != len(expected):
        return f"{len(found)} bytes instead of {len(expected)}"
    at = next(i for i, (a, b) in enumerate(zip(found, expected, strict=True)) if a != b)
    start = at - at % 16
    has, wanted = (
        f"{each[start:at].hex()}>{each[at : start + _SHOWN_BYTES].hex(' ', 4)}"
        for each in (found, expected)
    )
    return f"bytes differ from byte {at} of {len(expected)} on, at >: {has} instead of {wanted}"
