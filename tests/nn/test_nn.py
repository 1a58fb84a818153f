"""``unidev.nn`` in front of NumPy's layers, each against a plain reference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import unidev
from unidev import nn
from unidev.backends.loading import load_backend

if TYPE_CHECKING:
    Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def on_numpy(two_gpus: None) -> None:
    unidev.seed(3)


# -- layers --------------------------------------------------------------------------------------


def test_batch_norm_that_meets_another_device_remembers_nothing_of_it() -> None:
    layer = unidev.place(nn.batch_norm(2), "gpu:0")
    with pytest.raises(unidev.DeviceMismatchError):
        layer(unidev.ones((4, 2), device="gpu:1"))
    kept = load_backend("numpy").models.tensors(layer)
    assert unidev.to_numpy(kept["running_mean"]).tolist() == [0, 0]
    assert unidev.to_numpy(kept["running_var"]).tolist() == [1, 1]


def test_dropout_follows_unidevs_seed_and_does_nothing_when_it_infers() -> None:
    before = np.random.get_state()[1].tobytes()  # type: ignore[index,union-attr]
    layer, x = nn.dropout(0.5), np.ones(64, "f4")
    first = layer(x)
    assert (layer(x) != first).any()
    unidev.seed(3)
    assert (layer(x) == first).all()
    assert nn.eval_mode(layer)(x) is x
    assert (nn.train_mode(layer)(x) == 0).any()
    assert np.random.get_state()[1].tobytes() == before  # type: ignore[index,union-attr]


# -- sequential, and modes -------------------------------------------------------------------------


def test_a_container_of_arrays_has_no_mode_and_says_what_to_do() -> None:
    with pytest.raises(unidev.UnsupportedOperation, match=r"no mode.*as an argument"):
        nn.eval_mode({"weight": unidev.zeros(2)})


def test_a_layer_prints_what_it_is() -> None:
    shown = "Sequential(Dense(weight (2, 4), bias (2,)), Relu())"
    assert repr(nn.sequential(nn.dense(4, 2), nn.relu())) == shown
