"""Checkpoints: what was saved is what is loaded."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from checkpoint_samples import problems_of, sample, values

import unidev
from unidev import nn


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "model.safetensors"


# -- there and back --------------------------------------------------------------------------------


def test_bfloat16_is_held_as_its_bits_and_stored_as_what_it_is(file: Path, monkeypatch) -> None:
    names = lambda dtype, _: "bfloat16" if dtype == np.uint16 else str(dtype)  # noqa: E731
    x, y = np.arange(6, dtype="uint16").reshape(2, 3), np.zeros((2, 3), "uint16")
    with monkeypatch.context() as patch:
        patch.setattr("unidev.models.checkpoints.matching._dtype_name", names)
        unidev.save_parameters({"x": x}, file)
        unidev.load_parameters({"x": y}, file)
    assert y.tolist() == x.tolist()
    with safetensors.safe_open(file, framework="numpy") as opened:
        assert opened.get_slice("x").get_dtype() == "BF16"
    assert problems_of({"x": y}, file) == [
        "x: bfloat16 (2, 3) in the file, uint16 (2, 3) in the model"
    ]


def test_any_program_that_reads_safetensors_reads_it(file: Path) -> None:
    model = sample()
    unidev.save_parameters(model, file)
    read = safetensors.numpy.load_file(file)
    assert {name: x.tobytes() for name, x in read.items()} == values(model)


def test_a_file_that_another_program_wrote_loads_too(file: Path) -> None:
    safetensors.numpy.save_file({"a": np.arange(3.0), "b": np.ones((2, 2), "int8")}, file)
    model = {"a": np.zeros(3), "b": np.zeros((2, 2), "int8")}
    unidev.load_parameters(model, file)
    assert (model["a"].tolist(), model["b"].tolist()) == ([0, 1, 2], [[1, 1], [1, 1]])


def test_a_model_without_any_parameter_is_saved_and_loaded(file: Path) -> None:
    with unidev.use_backend("numpy"):
        model = nn.relu()
    unidev.save_parameters(model, file)
    assert unidev.load_parameters(model, file) is model
    unidev.save_parameters(sample(), file)
    with pytest.raises(unidev.CheckpointError, match="not in the model"):
        unidev.load_parameters(model, file)


@pytest.mark.parametrize("name", ["", "a b", 'quo"te', "ü.名", "a\\b", "a/b", "\0", "x" * 1000])
def test_a_name_may_have_any_characters(file: Path, name: str) -> None:
    unidev.save_parameters({name: np.arange(2), '"unidev.digest":"': np.zeros(1)}, file)
    model = {name: np.zeros(2, int), '"unidev.digest":"': np.ones(1)}
    unidev.load_parameters(model, file)
    assert model[name].tolist() == [0, 1]


def test_the_path_may_be_of_any_kind_that_open_takes(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for path in ("plain", Path("path"), tmp_path / "absolute", b"bytes"):
        unidev.save_parameters(sample(1), path)  # type: ignore[arg-type]
        model = sample(2)
        unidev.load_parameters(model, path)  # type: ignore[arg-type]
        assert values(model) == values(sample(1))
    assert sorted(os.listdir()) == ["absolute", "bytes", "path", "plain"]
    with pytest.raises(unidev.InvalidDataError, match="a path must be"):
        unidev.save_parameters(sample(), 3)  # type: ignore[arg-type]


# -- devices ---------------------------------------------------------------------------------------


def test_with_a_device_the_model_is_placed_there_once_the_file_is_known_to_fit(
    two_gpus: None, file: Path
) -> None:
    unidev.save_parameters(sample(1), file)
    model = sample(2)
    with pytest.raises(unidev.DeviceNotFoundError):
        unidev.load_parameters(model, file, device="gpu:7")
    with pytest.raises(unidev.CheckpointError):
        unidev.load_parameters({"other": model}, file, device="gpu:1")
    assert str(unidev.device_of(model)) == "cpu:0"
    assert values(model) == values(sample(2))
    unidev.load_parameters(model, file, device="gpu:1")
    assert str(unidev.device_of(model)) == "gpu:1"
    assert values(model) == values(sample(1))
