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


def normal(*shape: int) -> Array:
    return np.random.default_rng(0).standard_normal(shape, dtype="f4")


# -- weights -------------------------------------------------------------------------------------


def test_weights_have_their_outputs_first_and_a_bias_can_be_left_out() -> None:
    shapes = {
        name: [x.shape for x in unidev.parameters(layer).values()]
        for name, layer in {
            "dense": nn.dense(4, 2),
            "no bias": nn.dense(4, 2, bias=False),
            "conv2d": nn.conv2d(3, 5, (2, 1)),
            "conv2d, no bias": nn.conv2d(3, 5, 2, bias=False),
        }.items()
    }
    assert shapes == {
        "dense": [(2, 4), (2,)],
        "no bias": [(2, 4)],
        "conv2d": [(5, 3, 2, 1), (5,)],
        "conv2d, no bias": [(5, 3, 2, 2)],
    }


# -- layers --------------------------------------------------------------------------------------


def test_relu_and_tanh_are_elementwise_and_keep_nan() -> None:
    x = np.array([-2.0, -0.0, 0.5, 3.0, np.nan], "f4")
    np.testing.assert_array_equal(nn.relu()(x), [0, 0, 0.5, 3, np.nan])
    np.testing.assert_array_equal(nn.tanh()(x), np.tanh(x))
    assert nn.relu()(x).dtype == nn.tanh()(x).dtype == np.float32


def test_batch_norm_has_two_parameters_and_two_buffers() -> None:
    layer = nn.batch_norm(2)
    assert list(unidev.parameters(layer)) == ["weight", "bias"]
    named = ["weight", "bias", "running_mean", "running_var"]
    assert list(load_backend("numpy").models.tensors(layer)) == named


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


def one_of_each() -> Any:
    return nn.sequential(
        nn.conv2d(1, 2, 3, padding=1), nn.batch_norm(2), nn.relu(), nn.max_pool2d(2),
        nn.avg_pool2d(2), nn.flatten(), nn.dense(8, 4), nn.tanh(), nn.dropout(0.5),
    )  # fmt: skip


def test_every_layer_computes_where_it_is() -> None:
    x = normal(3, 1, 8, 8)
    expected = one_of_each()(x)
    unidev.seed(3)
    there = unidev.place(one_of_each(), "gpu:1")
    y = there(unidev.array(x, device="gpu:1"))
    assert unidev.device_of(y) is unidev.gpu(1)
    np.testing.assert_array_equal(unidev.to_numpy(y), expected)
    with pytest.raises(unidev.DeviceMismatchError, match=r"cpu:0.*gpu:1"):
        there(x)


# -- sequential, and modes -------------------------------------------------------------------------


def test_a_container_of_arrays_has_no_mode_and_says_what_to_do() -> None:
    with pytest.raises(unidev.UnsupportedOperation, match=r"no mode.*as an argument"):
        nn.eval_mode({"weight": unidev.zeros(2)})


def test_a_layer_prints_what_it_is() -> None:
    shown = "Sequential(Dense(weight (2, 4), bias (2,)), Relu())"
    assert repr(nn.sequential(nn.dense(4, 2), nn.relu())) == shown
