"""Checkpoints of tensors that share memory, and of layouts of the model's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import safetensors.numpy
from checkpoint_samples import problems_of

import unidev
from unidev.backends.loading import load_backend
from unidev.contract.models import Stored

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "model.safetensors"


# -- ties and views --------------------------------------------------------------------------------


def tied(x: np.ndarray) -> dict[str, Any]:
    return {"first": x, "other": [x, np.zeros(2)], "third": x}


def test_a_tie_in_the_file_alone_gives_each_the_values(file: Path) -> None:
    unidev.save_parameters({"a": (x := np.arange(3.0)), "b": x}, file)
    model = {"a": np.zeros(3), "b": np.zeros(3)}
    unidev.load_parameters(model, file)
    assert (model["a"].tolist(), model["b"].tolist()) == ([0, 1, 2], [0, 1, 2])
    model["a"][0] = 9
    assert model["b"][0] == 0


def test_a_problem_with_a_tie_of_the_file_goes_by_the_models_names(file: Path) -> None:
    unidev.save_parameters({"a": (x := np.arange(3.0)), "b": x}, file)
    assert problems_of({"a": np.zeros(3), "b": np.zeros(4), "c": np.zeros(1)}, file) == [
        "b: float64 (3,) in the file, float64 (4,) in the model",
        "c: float64 (1,) in the model, not in the file",
    ]
    assert problems_of({"a": (y := np.zeros(4)), "b": y}, file) == [
        "a: float64 (3,) in the file, float64 (4,) in the model"
    ]


def test_a_tie_in_the_model_alone_takes_entries_that_are_equal(file: Path) -> None:
    model = {"a": (x := np.zeros(3)), "b": x}
    safetensors.numpy.save_file({"a": np.arange(3.0), "b": np.arange(3.0)}, file)
    unidev.load_parameters(model, file)
    assert x.tolist() == [0, 1, 2]
    safetensors.numpy.save_file({"a": np.arange(3.0), "b": np.ones(3)}, file)
    assert problems_of(model, file) == [
        "a = b: tied in the model, but their values differ in the file"
    ]
    safetensors.numpy.save_file({"b": np.ones(3)}, file)  # as programs store what is tied
    unidev.load_parameters(model, file)
    assert x.tolist() == [1, 1, 1]


def test_two_arrays_that_are_the_same_memory_are_stored_once(file: Path) -> None:
    x = np.arange(6.0)
    unidev.save_parameters({"a": x, "b": x[:], "c": x.reshape(2, 3)}, file)
    assert set(safetensors.numpy.load_file(file)) == {"a", "c"}


def test_two_views_of_one_storage_are_two(file: Path) -> None:
    both, again = np.arange(6.0).reshape(2, 3), np.zeros((2, 3))
    unidev.save_parameters({"a": both[0], "b": both[1]}, file)
    assert set(safetensors.numpy.load_file(file)) == {"a", "b"}
    unidev.load_parameters({"a": again[0], "b": again[1]}, file)
    assert again.tolist() == both.tolist()


def test_arrays_that_share_memory_refuse_values_that_differ(file: Path) -> None:
    x = np.zeros(3)
    safetensors.numpy.save_file({"a": np.arange(3.0), "b": np.ones(3)}, file)
    assert problems_of({"a": x, "b": x[:]}, file) == [
        "a: shares memory with another tensor whose values differ in the file"
    ]


def test_arrays_of_any_strides_and_byte_order_are_saved_and_written_to(file: Path) -> None:
    x = np.arange(12, dtype=">f4").reshape(3, 4).T[::-1]
    y = np.zeros((3, 8), ">f4").T[::2]
    unidev.save_parameters({"x": x}, file)
    unidev.load_parameters({"x": y}, file)
    assert y.tolist() == x.tolist()


@pytest.mark.parametrize("axes", [(1, 0, 2), (2, 1, 0), (0, 2, 1)])
def test_a_large_array_in_another_order_is_saved_piece_by_piece(file: Path, axes) -> None:
    x = np.random.default_rng(0).random((3, 700, 1001)).transpose(axes)[:, ::-1]
    unidev.save_parameters({"x": x, "flat": x[0, 0]}, file)
    assert (safetensors.numpy.load_file(file)["x"] == x).all()


class Transposed:
    """A backend's ``stored`` that has weights the other way round, as Keras has them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        models = load_backend("numpy").models
        whole = models.stored

        def stored(model: Any) -> dict[str, Stored]:
            return {
                name: Stored(one.tensor, (2, 0, 1)) if one.tensor.ndim == 3 else one
                for name, one in whole(model).items()
            }

        monkeypatch.setattr(models, "stored", stored)


def test_a_layout_of_the_models_own_is_turned_into_the_files(file: Path, monkeypatch) -> None:
    x = np.random.default_rng(0).random((2, 3, 4))
    y = np.zeros((2, 3, 4))
    with monkeypatch.context() as patch:
        Transposed(patch)
        unidev.save_parameters({"x": x, "bias": np.zeros(2)}, file)
        unidev.load_parameters({"x": y, "bias": np.zeros(2)}, file)
        assert problems_of({"x": np.zeros((4, 2, 3)), "bias": np.zeros(2)}, file) == [
            "x: float64 (4, 2, 3) in the file, float64 (3, 4, 2) in the model"
        ]
    assert y.tolist() == x.tolist()
    portable = {"x": np.zeros((4, 2, 3)), "bias": np.zeros(2)}
    unidev.load_parameters(portable, file)
    assert portable["x"].tolist() == x.transpose(2, 0, 1).tolist()
