"""The table of compiled functions: complete, and written as it was read."""

from __future__ import annotations

import re
from pathlib import Path

import compiled_calls
import compiled_table
from compiled_calls import CALLS, PLACES
from compiled_table import BAD, ORDER, PAGE, Cell, Table

import unidev

ELSEWHERE = {
    "active_backend", "as_device", "estimate_memory", "evaluate_accuracy", "fastest_device", "gpu",
    "group", "hookimpl", "list_backends", "load_tensors", "memory", "part", "prefetch",
    "register_container", "run", "set_backend", "simulate", "spread", "track_memory",
    "try_all_gpus", "unsupported",
}  # fmt: skip
"""They find devices, choose a backend, start processes, or drive a whole training."""


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


def test_a_column_that_changes_takes_its_notes_along() -> None:
    table = Table(PAGE.read_text(encoding="utf-8"))
    table.columns["`jax.jit`"]["`sgd`"] = Cell("refused", "a reason of its own")
    again = Table(table.text())
    assert again.columns == table.columns
    assert "a reason of its own" in table.text()


def test_errors_are_told_apart() -> None:
    judged = compiled_table._judged_error
    assert judged(unidev.UnsupportedOperation("this", "no wings")) == ("refused", "no wings")
    assert judged(unidev.InvalidDataError("no shape")) == ("refused", "no shape")
    assert judged(TypeError("mixed")) == ("refused by the framework", "mixed")
    late = "unidev.errors.UnsupportedOperation: this is not supported: late"
    rewritten = unidev.UnsupportedOperation(f"In transformed code:\n\n    {late}")
    assert judged(rewritten) == ("refused", "late")
    assert judged(unidev.FrameworkError("it failed")).word == BAD
    assert judged(_raised_in_unidev()).word == BAD


def _raised_in_unidev() -> Exception:
    def failing(_: object) -> None:
        raise TypeError("the framework's own, while unidev runs")

    try:
        unidev.map_tensors(failing, unidev.zeros(3))
    except TypeError as error:
        return error
    raise AssertionError("nothing was raised")
