"""Tables of the docs that programs measure: what they have in common, and what one judges."""

from __future__ import annotations

import numpy as np
import pytest
from measured_table import MeasuredTable
from training_table import comparison

TABLE = MeasuredTable("fruit", "kinds", {"a": "apple", "b": "`pear`"}, "shops", ("x", "y"))
BEGUN, ENDED = [np.float32([1, 2])], [np.float32([3, 4])]


def parsed(monkeypatch: pytest.MonkeyPatch, *words: str) -> tuple[list[str], list[str]]:
    monkeypatch.setattr("sys.argv", ["table.py", *words])
    found = TABLE.parsed(TABLE.parser("Fruit."))
    return found.kinds, found.shops


def test_rows_and_columns_are_all_some_or_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    assert parsed(monkeypatch) == (["a", "b"], ["x", "y"])
    assert parsed(monkeypatch, "--kinds", "b", "--shops", "y,x") == (["b"], ["y", "x"])
    drawn = {tuple(TABLE.drawn(1, seed)) for seed in range(20)}
    assert drawn == {("a",), ("b",)}
    assert parsed(monkeypatch, "--draw", "1", "--seed", "7")[0] == TABLE.drawn(1, 7)


@pytest.mark.parametrize("option", ["--kinds", "--shops"])
def test_an_unknown_name_ends_the_program(
    option: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parsed(monkeypatch, option, "c")
    assert "'c' is none of" in capsys.readouterr().err


def test_the_table_has_what_was_measured() -> None:
    cells = {("a", "x"): "1", ("a", "y"): "2", ("b", "x"): "3", ("b", "y"): "4"}
    assert TABLE.markdown(cells) == (
        "| fruit | x | y |\n|---|---|---|\n| apple | 1 | 2 |\n| `pear` | 3 | 4 |\n"
    )


@pytest.mark.parametrize(
    ("found", "begun", "words"),
    [
        ([ENDED, ENDED], BEGUN, ""),
        ([ENDED, [np.nextafter(ENDED[0], np.float32(9))]], BEGUN, "different bits"),
        ([[np.float32([3, 4.0001])]] * 2, BEGUN, "other values, by 3e-05"),
        ([[np.float32([3, np.nan])]] * 2, BEGUN, "other values, by nan"),
        ([ENDED, [np.float32([3, np.nan])]], BEGUN, "other values, by nan"),
        ([[np.float32([3])]] * 2, BEGUN, "other values, by inf"),
        ([ENDED, ENDED], ENDED, "changed a parameter by 0 only"),
    ],
)
def test_training_that_is_not_as_in_one_process_is_named(
    found: list[list[np.ndarray]], begun: list[np.ndarray], words: str
) -> None:
    said = comparison("even", "torch", found, begun, ENDED).wrong()
    assert words in said
    assert bool(said) == bool(words)
