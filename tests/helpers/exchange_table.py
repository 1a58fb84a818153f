"""The two tables of ``docs/many-machines.md`` on costs, whose cells are formulas."""

from __future__ import annotations

import math
from pathlib import Path

from exchange_counts import BYTES, ENGINE, OWN, Cost, most

from unidev.system.host.shared_memory import slot_bytes

_PAGE = Path(__file__).parents[2] / "docs/many-machines.md"
_HEADS = {
    ENGINE: "| operation | calls, one host | bytes, one host | calls, several hosts |",
    OWN: "| operation | meetings, one host | messages, several hosts |",
}


def documented(way: str) -> dict[str, list[str]]:
    """The formulas of each operation, in the order of the columns."""
    lines = _PAGE.read_text(encoding="utf-8").splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith(_HEADS[way]))
    found = {}
    for line in lines[start + 2 :]:
        if not line:
            break
        name, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        found[name] = cells
    return found


def value(formula: str, operation: str, size: int) -> int:
    """A sum of products, such as ``n B + 8``, for so many workers."""
    nbytes = next((nbytes for what, nbytes in BYTES.items() if what in operation), 0)
    known = {"n": size, "m": min(size - 1, 2), "B": nbytes}
    known["k"] = math.ceil(nbytes / slot_bytes(size))
    return sum(
        math.prod(known[factor] if factor in known else int(factor) for factor in term.split())
        for term in formula.split(" + ")
    )


Costs = dict[str, Cost]


def engine_costs(backend: str, size: int) -> tuple[Costs, Costs, dict[str, list[int]]]:
    """The costs on one host and on several, and of each operation its four cells."""
    together = most(backend, ENGINE, size, is_apart=False)
    apart = most(backend, ENGINE, size, is_apart=True)
    assert together.keys() == apart.keys()
    cells = {
        name: [one.calls, one.given_bytes, apart[name].calls, apart[name].given_bytes]
        for name, one in together.items()
    }
    return together, apart, cells
