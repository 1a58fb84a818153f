"""What a step and ``restore`` cost, counted, beside the table of ``docs/many-machines.md``."""

from __future__ import annotations

import pytest
from exchange_counts import ENGINE, RESTORE, STEP
from exchange_table import documented, engine_costs, value


@pytest.mark.parametrize("size", [2, 4])
def test_the_engine_is_called_as_often_as_the_table_says(size: int) -> None:
    together, apart, cells = engine_costs("torch", size)
    table = documented(ENGINE)
    assert cells.keys() == table.keys()
    for name, found in cells.items():
        expected = [value(formula, name, size) for formula in table[name]]
        if name == RESTORE:  # of a file, whose header is as long as the names in it
            expected = [
                value(x, name, size) + y
                for x, y in zip(table[name], (0, found[1]) * 2, strict=True)
            ]
        assert found == expected, name
    assert together[RESTORE].messages == 1
    assert together[STEP].messages == apart[STEP].messages == 0
