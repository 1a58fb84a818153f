"""The promise that a survivor breaks, if any: the docstring of its function."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from mutation.faults import definitions_at

if TYPE_CHECKING:
    from pathlib import Path

    from mutation.faults import Fault


def promise_of(root: Path, fault: Fault) -> str:
    """The first paragraph of the docstring of the innermost function that has one.

    A method of a plugin has the contract's before its own: what it promises is written there.
    """
    source = (root / fault.module).read_text(encoding="utf-8")
    around = definitions_at(source, fault.line)
    said = [_contract(root).get(node.name) for node in reversed(around)]
    said += [_paragraph(node) for node in reversed(around)]
    found = [each for each in said if each]
    return found[0] if found else "(no docstring)"


def _contract(root: Path) -> dict[str, str]:
    """The paragraphs of the contract's methods, by name."""
    found: dict[str, str] = {}
    for path in sorted((root / "unidev" / "contract").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                found.setdefault(node.name, _paragraph(node))
    return found


def _paragraph(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> str:
    return " ".join((ast.get_docstring(node) or "").split("\n\n", maxsplit=1)[0].split())
