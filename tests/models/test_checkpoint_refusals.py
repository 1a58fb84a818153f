"""Checkpoints that are refused: they do not fit, or they are damaged."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import safetensors.numpy
import xxhash
from checkpoint_samples import metadata_of, problems_of, sample

import unidev
from unidev.backends.loading import load_backend

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "model.safetensors"


# -- what does not fit -----------------------------------------------------------------------------


def test_all_that_is_wrong_is_in_one_error_and_nothing_is_loaded(file: Path) -> None:
    saved = {
        "weight": np.ones((3, 2)), "bais": np.ones(3), "scale": np.ones(2, "int8"),
        "x": np.ones(1),
    }  # fmt: skip
    unidev.save_parameters(saved, file)
    model = {
        "weight": np.zeros((2, 3)), "bias": np.zeros(3), "scale": np.zeros(2, "int64"),
        "x": np.zeros(1),
    }  # fmt: skip
    assert problems_of(model, file) == [
        "weight: float64 (3, 2) in the file, float64 (2, 3) in the model",
        "bias: float64 (3,) in the model, not in the file (which has 'bais')",
        "scale: int8 (2,) in the file, int64 (2,) in the model",
        "bais: float64 (3,) in the file, not in the model",
    ]


def test_a_masked_array_is_named_and_its_filled_one_is_saved(file: Path) -> None:
    model = {"x": np.ma.masked_array([1.0, 2.0], [False, True])}
    with pytest.raises(unidev.UnsupportedOperation, match=r"'x'.*keep x\.filled\(value\)"):
        unidev.save_parameters(model, file)
    unidev.save_parameters({"x": model["x"].filled(0)}, file)


def test_the_message_names_the_first_problems_and_the_error_has_all(file: Path) -> None:
    unidev.save_parameters({f"there.{number}": np.zeros(1) for number in range(30)}, file)
    with pytest.raises(unidev.CheckpointError, match=r"(?s)nothing was.*and 40 more") as caught:
        unidev.load_parameters({f"here.{number}": np.zeros(1) for number in range(30)}, file)
    assert len(caught.value.problems) == 60
    assert isinstance(caught.value, ValueError)


def test_a_file_of_another_framework_that_does_not_fit_says_so(file: Path, monkeypatch) -> None:
    monkeypatch.setattr(load_backend("numpy"), "name", "elsewhere")
    unidev.save_parameters({"kernel": np.zeros(1)}, file)
    monkeypatch.undo()
    unidev.load_parameters({"kernel": np.zeros(1)}, file)
    with pytest.raises(unidev.CheckpointError, match=r"saved with elsewhere, but .* numpy model"):
        unidev.load_parameters({"weight": np.zeros(1)}, file)


def test_dtypes_that_the_file_cannot_hold_are_all_named_and_nothing_is_written(file: Path) -> None:
    file.write_text("old")
    model = {"fine": np.zeros(1), "wide": np.zeros(2, "complex128"), "text": np.array(["x"])}
    with pytest.raises(unidev.UnsupportedDtypeError, match="'wide' is complex128, 'text' is str"):
        unidev.save_parameters(model, file)
    assert file.read_text() == "old"
    assert os.listdir(file.parent) == [file.name]


def test_a_dtype_that_only_the_file_has_is_a_problem_with_its_name(file: Path) -> None:
    header = b'{"x":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2]}}'
    file.write_bytes(len(header).to_bytes(8, "little") + header + b"ab")
    assert problems_of({"x": np.zeros(2, "complex128")}, file) == [
        "x: F8_E4M3 (2,) in the file, complex128 (2,) in the model"
    ]


@pytest.mark.parametrize("name", ["__metadata__", "\udc80"])
def test_a_name_that_the_format_has_no_room_for_is_refused(file: Path, name: str) -> None:
    with pytest.raises(unidev.InvalidDataError, match="rename it"):
        unidev.save_parameters({name: np.zeros(1)}, file)
    assert not file.exists()


def test_what_is_no_model_is_refused(file: Path) -> None:
    for thing in (np.zeros(3), 3, {}):
        with pytest.raises(unidev.NotAModelError):
            unidev.save_parameters(thing, file)
        with pytest.raises(unidev.NotAModelError):
            unidev.load_parameters(thing, file)
    assert not file.exists()


# -- damage ----------------------------------------------------------------------------------------


def test_a_file_cut_short_anywhere_is_an_error(file: Path) -> None:
    unidev.save_parameters(sample(1), file)
    whole = file.read_bytes()
    for length in range(len(whole)):
        file.write_bytes(whole[:length])
        assert problems_of(sample(2), file)
    file.write_bytes(whole + b"x")
    assert problems_of(sample(2), file)


def test_a_byte_changed_anywhere_is_an_error(file: Path) -> None:
    unidev.save_parameters({"a": np.arange(3.0), "b": np.zeros(2, "int8")}, file)
    whole = file.read_bytes()
    for position in range(len(whole)):
        for flip in (0x01, 0x20, 0x80):
            damaged = bytearray(whole)
            damaged[position] ^= flip
            file.write_bytes(damaged)
            assert problems_of({"a": np.zeros(3), "b": np.ones(2, "int8")}, file)


def test_a_file_whose_tensors_were_replaced_is_an_error(file: Path) -> None:
    unidev.save_parameters({"a": np.arange(3.0)}, file)
    safetensors.numpy.save_file({"a": np.ones(3)}, file, metadata_of(file))
    (problem,) = problems_of({"a": np.zeros(3)}, file)
    assert "digest" in problem


def test_the_digest_is_of_the_file_with_zeros_in_its_own_place(file: Path) -> None:
    unidev.save_parameters(sample(), file)
    digest = metadata_of(file)["unidev.digest"]
    blank = file.read_bytes().replace(digest.encode(), b"0" * 32, 1)
    assert xxhash.xxh3_128(blank).hexdigest() == digest


def test_the_metadata_says_format_version_and_framework(file: Path) -> None:
    unidev.save_parameters(sample(), file)
    found = metadata_of(file)
    assert found.pop("unidev.digest")
    assert found == {
        "unidev.format": "1", "unidev.version": unidev.__version__,
        "unidev.framework": "numpy", "unidev.ties": "{}", "unidev.numbers": "{}",
    }  # fmt: skip


def test_a_newer_format_is_refused_with_words(file: Path) -> None:
    newer = {"unidev.format": "2", "unidev.version": "9.0"}
    safetensors.numpy.save_file({"a": np.arange(3.0)}, file, newer)
    (problem,) = problems_of({"a": np.zeros(3)}, file)
    assert problem == (
        "unidev 9.0 wrote it in format 2, but this unidev reads only format 1; install a newer "
        "unidev"
    )


def test_what_is_no_safetensors_file_is_an_error_and_a_missing_one_an_oserror(file: Path) -> None:
    file.write_text("not a checkpoint at all, though quite long enough for one")
    assert "not a safetensors file" in problems_of(sample(), file)[0]
    with pytest.raises(FileNotFoundError):
        unidev.load_parameters(sample(), file.with_name("missing"))
    with pytest.raises(IsADirectoryError):
        unidev.load_parameters(sample(), file.parent)


def test_a_file_that_ends_while_it_is_read_leaves_the_model_as_it_was(
    file: Path, monkeypatch
) -> None:
    models = load_backend("numpy").models
    write = models.write

    def cut(x: Any, given: Any) -> None:
        os.truncate(file, file.stat().st_size - 1)
        write(x, given)

    monkeypatch.setattr(models, "write", cut)
    model = {"big": np.zeros(1 << 20), **sample(2)}
    unidev.save_parameters({"big": np.ones(1 << 20), **sample(1)}, file)
    assert "it ends in the middle of" in problems_of(model, file)[0]


def test_whoever_loads_while_another_saves_gets_one_of_the_files_whole(file: Path) -> None:
    def model(number: int) -> dict[str, np.ndarray]:
        return {f"layer.{layer}": np.full(10_000, number) for layer in range(3)}

    def save() -> None:
        for number in range(1, 40):
            unidev.save_parameters(model(number), file)

    unidev.save_parameters(model(0), file)
    found: list[set[int]] = []
    with ThreadPoolExecutor(1) as pool:
        saving = pool.submit(save)
        while not saving.done():
            loaded = unidev.load_parameters(model(-1), file)
            found.append({number for x in loaded.values() for number in x.tolist()})
        saving.result()
    assert all(len(numbers) == 1 for numbers in found)
    assert len(set.union(*found)) > 5


@pytest.mark.parametrize("path", [None, 3, ["a"], "a\0b", b"\0", memoryview(b"a"), object()])
def test_what_is_no_path_is_refused_and_named(path) -> None:
    for verb in (unidev.save_parameters, unidev.load_parameters):
        with pytest.raises(unidev.InvalidDataError, match="a path must be a string"):
            verb({"x": unidev.ones(2)}, path)
