"""What operations of a group cost, counted, beside the tables of ``docs/many-machines.md``."""

from __future__ import annotations

import pytest
from exchange_counts import ENGINE, OWN, RESTORE, SIZES, STEP, most
from exchange_table import documented, engine_costs, value

pytestmark = pytest.mark.slow

MODELS = {STEP, RESTORE}
"""NumPy has none: PyTorch's tests count these."""


@pytest.mark.parametrize("size", SIZES)
def test_an_engine_is_called_as_often_as_the_table_says(size: int) -> None:
    _, _, cells = engine_costs("numpy", size)
    table = documented(ENGINE)
    assert cells.keys() == table.keys() - MODELS
    for name, found in cells.items():
        assert found == [value(formula, name, size) for formula in table[name]], name


@pytest.mark.parametrize("size", SIZES)
def test_workers_meet_and_send_as_often_as_the_table_says(size: int) -> None:
    together = most("numpy", OWN, size, is_apart=False)
    apart = most("numpy", OWN, size, is_apart=True)
    table = documented(OWN)
    assert together.keys() == apart.keys() == table.keys()
    for name, one in together.items():
        several = apart[name]
        found = [one.meetings, several.messages, several.sent_bytes]
        assert found == [value(formula, name, size) for formula in table[name]], name
        assert one.messages == 0, name
        assert several.meetings == 0, name
