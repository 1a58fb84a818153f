"""Drawn exchanges with exceptions in the middle: no wrong number, no hang, the right worker named.

``DRAWN_EXCHANGES=0:1000`` draws other runs, by their numbers.
"""

from __future__ import annotations

import os

import drawn_exchanges
import pytest
from running_examples import HERE

FRAMEWORKS = [
    pytest.param(name, id=name, marks=[pytest.mark.slow] if name != "numpy" else [])
    for name in HERE
]
HOLDS_ON = {"mxnet", "paddle"}
"""Their engines do not let go of a worker that waits for one that is gone; Paddle's at moments."""


@pytest.mark.parametrize("backend", FRAMEWORKS)
def test_whoever_leaves_an_exchange_is_named_and_no_number_is_wrong(backend: str) -> None:
    given = os.environ.get("DRAWN_EXCHANGES", "0:8" if backend == "numpy" else "0:4")
    numbers, lets_go = range(*map(int, given.split(":"))), backend not in HOLDS_ON
    heard = [drawn_exchanges.heard(number, backend, lets_go=lets_go) for number in numbers]
    wrong = [each for each in heard if each.startswith("run")]
    assert not wrong, "\n".join(wrong)
    assert "left" in heard or "ended" in heard, f"nobody has left one early: {heard}"
