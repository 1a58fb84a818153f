"""A table of the docs that a program measures: its options, rows drawn by a seed, its Markdown."""

from __future__ import annotations

import argparse
import random
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True)
class MeasuredTable:
    """The rows and columns that there are; a program measures all or some of them."""

    corner: str
    """The head of the first column."""
    rows_option: str
    rows: Mapping[str, str]
    """What the table says of each row, by name."""
    columns_option: str
    columns: Sequence[str]

    def drawn(self, count: int, seed: int) -> list[str]:
        """The names of ``count`` rows."""
        return random.Random(seed).sample([*self.rows], count)

    def parser(self, description: str | None) -> argparse.ArgumentParser:
        """The options that all such programs have."""
        parser = argparse.ArgumentParser(description=description)
        rows, columns = [*self.rows], ",".join(self.columns)
        parser.add_argument(f"--{self.columns_option}", default=columns, metavar=columns)
        parser.add_argument(f"--{self.rows_option}", metavar=",".join(rows[:2]), help="some rows")
        parser.add_argument("--draw", type=int, metavar="N", help="only so many rows")
        parser.add_argument("--seed", type=int, default=0)
        parser.add_argument("--markdown", type=Path, metavar="FILE")
        return parser

    def parsed(self, parser: argparse.ArgumentParser) -> argparse.Namespace:
        """The options; rows and columns are lists of names. An unknown name ends the program."""
        found = parser.parse_args()
        rows = getattr(found, self.rows_option)
        if rows is None:
            rows = ",".join(self.rows if found.draw is None else self.drawn(found.draw, found.seed))
        columns = getattr(found, self.columns_option)
        for option, given, known in (
            (self.rows_option, rows, self.rows),
            (self.columns_option, columns, self.columns),
        ):
            names = given.split(",")
            for name in names:
                if name not in known:
                    parser.error(f"{name!r} is none of {', '.join(known)}")
            setattr(found, option, names)
        return found

    def markdown(self, cells: Mapping[tuple[str, str], str]) -> str:
        """The table of ``cells``, by the names of row and column."""
        rows, columns = (dict.fromkeys(names) for names in zip(*cells, strict=True))
        lines = [f"| {self.corner} | {' | '.join(columns)} |", "|---" * (1 + len(columns)) + "|"]
        lines += [
            f"| {self.rows[row]} | {' | '.join(cells[row, column] for column in columns)} |"
            for row in rows
        ]
        return "\n".join(lines) + "\n"
