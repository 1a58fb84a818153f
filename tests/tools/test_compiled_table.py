"""The table of compiled functions: complete, and written as it was read."""

from __future__ import annotations

import re
from pathlib import Path

import compiled_calls
from compiled_calls import CALLS, PLACES
from compiled_table import BAD, ORDER, PAGE, Table

import unidev

ELSEWHERE = {
    "active_backend", "as_device", "assert_no_races", "estimate_memory", "evaluate_accuracy",
    "fastest_device", "gpu", "group", "hookimpl", "list_backends", "load_tensors", "memory",
    "part", "prefetch", "register_container", "run", "set_backend", "simulate", "spread",
    "track_memory", "try_all_gpus", "unsupported",
}  # fmt: skip
"""They find devices or races, choose a backend, start processes, or drive a whole training."""


def test_the_table_has_each_public_function_of_tensors() -> None:
    public = {name: getattr(unidev, name) for name in unidev.__all__}
    functions = {
        name for name, each in public.items() if callable(each) and not isinstance(each, type)
    }
    text = Path(compiled_calls.__file__).read_text(encoding="utf-8")
    called = set(re.findall(r"unidev\.(\w+)\(", text))
    assert functions - called == ELSEWHERE


def test_the_page_has_every_row_and_column_and_no_defect() -> None:
    table = Table(PAGE.read_text(encoding="utf-8"))
    assert sorted(table.columns) == sorted(ORDER)
    for name, cells in table.columns.items():
        assert list(cells) == [*CALLS, *PLACES], name
        assert not [label for label, cell in cells.items() if cell.word in (BAD, "?")], name


def test_a_page_that_is_read_and_written_stays_the_same() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert Table(text).text() == text
