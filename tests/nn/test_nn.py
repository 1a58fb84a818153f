"""``unidev.nn`` in front of NumPy's layers, each against a plain reference."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import unidev
from unidev import nn
from unidev.registry.loading import load_backend

if TYPE_CHECKING:
    Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def on_numpy(two_gpus: None) -> None:
    unidev.seed(3)


def normal(*shape: int) -> Array:
    return np.random.default_rng(0).standard_normal(shape, dtype="f4")


def conv_of_loops(
    x: Array, weight: Array, stride: tuple[int, int], padding: tuple[int, int]
) -> Array:
    """Cross-correlation, one output at a time, in float64."""
    (down, right), (kernel_height, kernel_width) = stride, weight.shape[2:]
    edges = [(0, 0), (0, 0), *((edge, edge) for edge in padding)]
    padded = np.pad(x.astype("f8"), edges)
    rows = (padded.shape[2] - kernel_height) // down + 1
    columns = (padded.shape[3] - kernel_width) // right + 1
    y = np.zeros((len(x), len(weight), rows, columns))
    for n, out, i, j in itertools.product(*map(range, y.shape)):
        top, left = i * down, j * right
        window = padded[n, :, top : top + kernel_height, left : left + kernel_width]
        y[n, out, i, j] = (window * weight[out]).sum()
    return y


def pool_of_loops(x: Array, window: tuple[int, int], stride: tuple[int, int], of: Any) -> Array:
    rows = (x.shape[2] - window[0]) // stride[0] + 1
    columns = (x.shape[3] - window[1]) // stride[1] + 1
    y = np.zeros((*x.shape[:2], rows, columns))
    for n, channel, i, j in itertools.product(*map(range, y.shape)):
        top, left = i * stride[0], j * stride[1]
        y[n, channel, i, j] = of(x[n, channel, top : top + window[0], left : left + window[1]])
    return y


# -- weights -------------------------------------------------------------------------------------


def net() -> Any:
    return nn.sequential(
        nn.conv2d(1, 3, 3, padding=1), nn.tanh(), nn.avg_pool2d(2), nn.flatten(), nn.dense(48, 10)
    )


def test_one_seed_gives_one_net_and_another_seed_another() -> None:
    nets = []
    for seed in (1, 1, 2):
        unidev.seed(seed)
        nets.append(unidev.parameters(net()))
    same = {name: bool((nets[0][name] == nets[1][name]).all()) for name in nets[0]}
    assert same == dict.fromkeys(["0.weight", "0.bias", "4.weight", "4.bias"], True)
    assert not (nets[0]["4.weight"] == nets[2]["4.weight"]).any()


def test_weights_fill_glorots_interval_and_biases_are_zero() -> None:
    for layer, fans in ((nn.dense(300, 100), 400), (nn.conv2d(10, 20, (5, 4)), 20 * (10 + 20))):
        found = unidev.parameters(layer)
        limit = (6 / fans) ** 0.5
        assert found["weight"].dtype == np.float32
        assert limit * 0.99 < np.abs(found["weight"]).max() <= limit * (1 + 1e-6)
        assert abs(found["weight"].mean()) < limit / 30
        assert not found["bias"].any()


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


def test_layers_are_made_on_the_device_of_the_scope() -> None:
    with unidev.gpu(1):
        layer = nn.sequential(nn.dense(2, 2), nn.batch_norm(2))
    assert unidev.device_of(layer) is unidev.gpu(1)
    assert unidev.device_of(nn.dense(2, 2)) is unidev.cpu()


# -- layers --------------------------------------------------------------------------------------


def test_dense_is_of_the_last_axis() -> None:
    layer = nn.dense(4, 3)
    unidev.parameters(layer)["bias"][...] = [1, 2, 3]
    weight, bias = unidev.parameters(layer).values()
    for shape in ((4,), (5, 4), (2, 5, 4), (0, 4)):
        x = normal(*shape)
        y = layer(x)
        assert y.dtype == np.float32
        np.testing.assert_allclose(y, np.einsum("...i,oi->...o", x, weight) + bias, atol=1e-6)


@pytest.mark.parametrize("stride", [1, 2, (3, 1)])
@pytest.mark.parametrize("padding", [0, 1, (0, 2)])
@pytest.mark.parametrize("kernel_size", [1, 3, (2, 4)])
def test_conv2d_is_cross_correlation(stride: Any, padding: Any, kernel_size: Any) -> None:
    layer = nn.conv2d(2, 3, kernel_size, stride=stride, padding=padding)
    unidev.parameters(layer)["bias"][...] = [1, -1, 2]
    weight, bias = unidev.parameters(layer).values()
    x = normal(2, 2, 6, 7)
    pairs = [given if isinstance(given, tuple) else (given, given) for given in (stride, padding)]
    expected = conv_of_loops(x, weight, *pairs) + bias[:, None, None]
    y = layer(x)
    assert y.dtype == np.float32
    np.testing.assert_allclose(y, expected, atol=1e-5)


@pytest.mark.parametrize("stride", [None, 1, (2, 3)])
@pytest.mark.parametrize("kernel_size", [2, (3, 2)])
def test_pooling_takes_whole_windows_and_drops_the_rest(kernel_size: Any, stride: Any) -> None:
    x = normal(2, 3, 7, 8)
    window = kernel_size if isinstance(kernel_size, tuple) else (kernel_size, kernel_size)
    steps = stride or window
    steps = steps if isinstance(steps, tuple) else (steps, steps)
    for make, of in ((nn.avg_pool2d, np.mean), (nn.max_pool2d, np.max)):
        y = make(kernel_size, stride=stride)(x)
        assert y.dtype == np.float32
        np.testing.assert_allclose(y, pool_of_loops(x, window, steps, of), atol=1e-6)


def test_flatten_keeps_the_order_of_channels_height_and_width() -> None:
    x = np.arange(2 * 3 * 2 * 2).reshape(2, 3, 2, 2)
    assert nn.flatten()(x).tolist() == [list(range(12)), list(range(12, 24))]
    assert nn.flatten()(np.zeros((0, 3, 2))).shape == (0, 6)


def test_relu_and_tanh_are_elementwise_and_keep_nan() -> None:
    x = np.array([-2.0, -0.0, 0.5, 3.0, np.nan], "f4")
    np.testing.assert_array_equal(nn.relu()(x), [0, 0, 0.5, 3, np.nan])
    np.testing.assert_array_equal(nn.tanh()(x), np.tanh(x))
    assert nn.relu()(x).dtype == nn.tanh()(x).dtype == np.float32


@pytest.mark.parametrize("shape", [(16, 3), (4, 3, 5, 2)])
def test_batch_norm_normalises_a_batch_and_remembers_it(shape: tuple[int, ...]) -> None:
    layer = nn.batch_norm(3, momentum=0.75, epsilon=1e-3)
    unidev.parameters(layer)["weight"][...] = [1, 2, 3]
    unidev.parameters(layer)["bias"][...] = [0, 1, 0]
    x = normal(*shape) * 4 + 2
    flat = np.moveaxis(x, 1, -1).reshape(-1, 3)
    mean, variance = flat.mean(0), flat.var(0)
    expected = (flat - mean) / np.sqrt(variance + 1e-3) * [1, 2, 3] + [0, 1, 0]
    y = layer(x)
    assert y.dtype == np.float32
    np.testing.assert_allclose(np.moveaxis(y, 1, -1).reshape(-1, 3), expected, atol=1e-5)
    kept = load_backend("numpy").models.tensors(layer)
    np.testing.assert_allclose(kept["running_mean"], 0.25 * mean, rtol=1e-5)
    np.testing.assert_allclose(kept["running_var"], 0.75 + 0.25 * variance, rtol=1e-5)


def test_batch_norm_infers_with_what_it_remembers_and_changes_nothing() -> None:
    layer = nn.eval_mode(nn.batch_norm(2, epsilon=0.0))
    kept = load_backend("numpy").models.tensors(layer)
    kept["running_mean"][...], kept["running_var"][...] = [1, 2], [4, 9]
    x = normal(5, 2)
    np.testing.assert_allclose(layer(x), (x - [1, 2]) / [2, 3], atol=1e-6)
    assert [kept["running_mean"].tolist(), kept["running_var"].tolist()] == [[1, 2], [4, 9]]


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


def test_dropout_drops_its_share_and_scales_the_others_up() -> None:
    before = np.random.get_state()[1].tobytes()  # type: ignore[index,union-attr]
    y = nn.dropout(0.25)(np.ones((100, 100), "f4"))
    assert 0.23 < (y == 0).mean() < 0.27
    assert set(np.unique(y)) == {np.float32(0), np.float32(1 / 0.75)}
    assert np.random.get_state()[1].tobytes() == before  # type: ignore[index,union-attr]


def test_dropout_follows_unidevs_seed_and_does_nothing_when_it_infers() -> None:
    layer, x = nn.dropout(0.5), np.ones(64, "f4")
    first = layer(x)
    assert (layer(x) != first).any()
    unidev.seed(3)
    assert (layer(x) == first).all()
    assert nn.eval_mode(layer)(x) is x
    assert (nn.train_mode(layer)(x) == 0).any()


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


def test_sequential_holds_the_layers_that_it_was_given_nested_and_shared() -> None:
    shared = nn.dense(2, 2)
    whole = nn.sequential(shared, nn.sequential(nn.relu(), shared))
    assert list(unidev.parameters(whole)) == ["0.weight", "0.bias"]
    unidev.parameters(shared)["weight"][...] = [[2, 0], [0, -1]]
    assert whole(np.ones((1, 2), "f4")).tolist() == [[4, 0]]
    assert nn.sequential()(shared.parameters["weight"]) is shared.parameters["weight"]


def test_the_modes_reach_every_layer_and_return_the_model() -> None:
    whole = nn.sequential(nn.dense(4, 4), nn.sequential(nn.dropout(0.9)))
    x = np.ones((8, 4), "f4")
    assert (whole(x) == 0).any()
    assert nn.eval_mode(whole) is whole
    assert not (whole(x) == 0).any()
    assert nn.train_mode(whole) is whole
    assert (whole(x) == 0).any()


def test_a_container_of_arrays_has_no_mode_and_says_what_to_do() -> None:
    with pytest.raises(unidev.UnsupportedOperation, match=r"no mode.*as an argument"):
        nn.eval_mode({"weight": unidev.zeros(2)})


def test_a_layer_prints_what_it_is() -> None:
    shown = "Sequential(Dense(weight (2, 4), bias (2,)), Relu())"
    assert repr(nn.sequential(nn.dense(4, 2), nn.relu())) == shown
