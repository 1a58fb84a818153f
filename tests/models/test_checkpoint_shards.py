"""Checkpoints in several files, with an index, as Hugging Face's libraries write them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import safetensors.numpy
from checkpoint_samples import problems_of

import unidev
from unidev.models.checkpoints import reading

if TYPE_CHECKING:
    from pathlib import Path

FIRST, SECOND = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"


@pytest.fixture
def index(tmp_path: Path) -> Path:
    safetensors.numpy.save_file({"a": np.full(3, 1, "float32")}, tmp_path / FIRST)
    second = {"b": np.full((2, 2), 2, "int8"), "c": np.full(1, 3.0)}
    safetensors.numpy.save_file(second, tmp_path / SECOND)
    return write(tmp_path, {"a": FIRST, "b": SECOND, "c": SECOND})


def write(folder: Path, weight_map: object) -> Path:
    path = folder / "model.safetensors.index.json"
    path.write_text(json.dumps({"metadata": {"total_size": 24}, "weight_map": weight_map}))
    return path


def model() -> dict[str, Any]:
    return {"a": np.zeros(3, "float32"), "b": np.zeros((2, 2), "int8"), "c": np.zeros(1)}


def test_all_files_of_an_index_are_loaded(index: Path) -> None:
    loaded = unidev.load_parameters(model(), index)
    assert {name: x.ravel()[0] for name, x in loaded.items()} == {"a": 1, "b": 2, "c": 3}


def test_a_tied_tensor_may_be_in_one_file_or_in_several(tmp_path: Path, index: Path) -> None:
    safetensors.numpy.save_file({"t": np.full(3, 1, "float32")}, tmp_path / SECOND)
    write(tmp_path, {"a": FIRST, "t": SECOND})
    x = np.zeros(3, "float32")
    tied = unidev.load_parameters({"a": x, "t": x, "not in the file": x}, index)
    assert tied["t"].tolist() == [1, 1, 1]
    safetensors.numpy.save_file({"t": np.full(3, 2, "float32")}, tmp_path / SECOND)
    assert problems_of({"a": x, "t": x}, index) == [
        "a = t: tied in the model, but their values differ in the file"
    ]


def test_files_that_unidev_wrote_keep_their_ties_and_are_checked(tmp_path: Path) -> None:
    x = np.arange(3)
    unidev.save_parameters({"x": x, "again": x}, tmp_path / FIRST)
    index = write(tmp_path, {"x": FIRST})
    loaded = unidev.load_parameters({"x": np.zeros(3, int), "again": np.zeros(3, int)}, index)
    assert loaded["again"].tolist() == [0, 1, 2]
    damaged = bytearray((tmp_path / FIRST).read_bytes())
    damaged[-1] ^= 1
    (tmp_path / FIRST).write_bytes(damaged)
    (problem,) = problems_of(loaded, index)
    assert "the digest differs" in problem


def test_what_does_not_fit_is_listed_over_all_files(index: Path) -> None:
    wrong = {**model(), "b": np.zeros(2, "int8"), "d": np.zeros(1)}
    assert problems_of(wrong, index) == [
        "b: int8 (2, 2) in the file, int8 (2,) in the model",
        "d: float64 (1,) in the model, not in the file",
    ]


@pytest.mark.parametrize(
    ("weight_map", "problem"),
    [
        (None, "it has no weight_map"),
        ({}, "it has no weight_map"),
        ([FIRST], "it has no weight_map"),
        ({"a": f"../{FIRST}"}, "which is not a file's name in its folder"),
        ({"a": f"/tmp/{FIRST}"}, "which is not a file's name in its folder"),
        ({"a": 1}, "its weight_map has 1"),
        ({"a": ""}, "its weight_map has ''"),
        ({"a": "x\0"}, "which is not a file's name in its folder"),
        ({"a": FIRST, "b": FIRST}, f"{FIRST} lacks 'b', which the index has"),
        ({"a": FIRST, "b": SECOND}, f"the index lacks 'c', which {SECOND} has"),
        ({"a": FIRST, "x": "model.safetensors.index.json"}, "it is not a safetensors file"),
    ],
)
def test_an_index_that_cannot_be_followed_is_refused(
    tmp_path: Path, index: Path, weight_map: object, problem: str
) -> None:
    write(tmp_path, weight_map)
    (found,) = problems_of(model(), index)
    assert problem in found


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[]", "its index is not an object"),
        ("{", "its index cannot be read"),
        ("\udcff", "its index cannot be read"),
        ('{"weight_map": {}, "weight_map": {}}', "a name occurs twice in its index"),
    ],
)
def test_a_damaged_index_is_refused(index: Path, text: str, problem: str) -> None:
    index.write_bytes(text.encode(errors="surrogateescape"))
    (found,) = problems_of(model(), index)
    assert problem in found


def test_an_index_is_gone_through_once_however_many_files_it_names(
    index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, sound = [], reading.parsed

    class Named(dict[str, str]):
        def items(self) -> Any:
            calls.append("items")
            return super().items()

    def parsed(*given: Any) -> Any:
        found = sound(*given)
        return found | {key: Named(found[key]) for key in found.keys() & {"weight_map"}}

    monkeypatch.setattr(reading, "parsed", parsed)
    unidev.load_parameters(model(), index)
    assert calls == ["items"]


def test_links_may_lead_to_the_files_beside_the_index_and_nowhere_else(
    tmp_path: Path, index: Path
) -> None:
    cache = tmp_path / "snapshots"  # as Hugging Face's
    cache.mkdir()
    for name in (FIRST, SECOND, index.name):
        (cache / name).symlink_to(tmp_path / name)
    loaded = unidev.load_parameters(model(), cache / index.name)
    assert loaded["b"].tolist() == [[2, 2], [2, 2]]
    (cache / index.name).unlink()
    (cache / index.name).write_bytes(index.read_bytes())
    (problem,) = problems_of(model(), cache / index.name)
    assert problem == f"{FIRST} is a link out of the index's folder, to {str(tmp_path / FIRST)!r}"


def test_a_file_that_is_missing_is_the_error_of_opening_it(tmp_path: Path, index: Path) -> None:
    (tmp_path / SECOND).unlink()
    with pytest.raises(FileNotFoundError, match=SECOND):
        unidev.load_parameters(model(), index)
