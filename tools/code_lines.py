"""Count lines of code: neither blank, nor a comment, nor a docstring.

Use: ``python tools/code_lines.py unidev plugins/*/src tools benchmarks``
"""

from __future__ import annotations

import ast
import sys
import tokenize
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_NOT_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


def code_lines(file: Path) -> int:
    """Return the number of lines of `file` that hold code."""
    with file.open("rb") as stream:
        lines = {
            line
            for token in tokenize.tokenize(stream.readline)
            if token.type not in _NOT_CODE
            for line in range(token.start[0], token.end[0] + 1)
        }
    return len(lines - set(_docstring_lines(ast.parse(file.read_bytes()))))


def _docstring_lines(module: ast.Module) -> Iterator[int]:
    for node in ast.walk(module):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if ast.get_docstring(node, clean=False) is not None:
            yield from range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)


def main(folders: Sequence[str]) -> int:
    """Print the count of each of `folders`, and their sum; 2 if none is given."""
    if not folders:
        print(__doc__, file=sys.stderr)
        return 2
    counts = {
        folder: sum(map(code_lines, sorted(Path(folder).rglob("*.py")))) for folder in folders
    }
    for folder, count in {**counts, "all": sum(counts.values())}.items():
        print(f"{count:7,}  {folder}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
