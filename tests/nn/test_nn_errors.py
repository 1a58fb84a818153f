"""What ``unidev.nn`` refuses, on NumPy: sizes, layers, arguments of layers, and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import unidev
from unidev import nn
from unidev.backends.loading import load_backend


@pytest.fixture(autouse=True)
def on_numpy(two_gpus: None) -> None:
    unidev.seed(3)


@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (lambda: nn.conv2d(1, 2**40, 3), "(1099511627776, 1, 3, 3)"),
        (lambda: nn.dense(2**20, 2**40), "(1099511627776, 1048576)"),
        (lambda: unidev.rand(2**45), "(35184372088832,)"),
    ],
)
def test_more_weights_than_there_is_memory_for(make: Any, shape: str) -> None:
    with pytest.raises(unidev.OutOfDeviceMemoryError, match="drawing random numbers") as caught:
        make()
    assert shape in str(caught.value)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: nn.dense(0, 2), "inputs must be a positive integer, not 0"),
        (lambda: nn.dense(2, 2.5), "outputs must be a positive integer, not 2.5"),
        (lambda: nn.dense(2, True), "outputs must be a positive integer, not True"),
        (lambda: nn.conv2d(1, -1, 3), "out_channels must be a positive integer, not -1"),
        (lambda: nn.conv2d("1", 1, 3), "in_channels must be a positive integer, not '1'"),
        (lambda: nn.conv2d(1, 1, (3, 3, 3)), "kernel_size must be an integer or a pair of them"),
        (lambda: nn.conv2d(1, 1, 3, stride=0), "stride must be a positive integer, not 0"),
        (lambda: nn.conv2d(1, 1, 3, padding=-1), "padding must be a non-negative integer, not -1"),
        (lambda: nn.conv2d(1, 1, 3, padding="same"), "padding must be a non-negative integer"),
        (lambda: nn.avg_pool2d((2, 0)), "kernel_size must be a positive integer, not 0"),
        (lambda: nn.max_pool2d(2, stride=(1,)), "stride must be an integer or a pair of them"),
        (lambda: nn.batch_norm(None), "features must be a positive integer, not None"),
        (lambda: nn.batch_norm(2, momentum=1), "momentum must be at least 0 and less than 1"),
        (lambda: nn.batch_norm(2, epsilon="x"), "epsilon must be at least 0 and less than 1"),
        (lambda: nn.dropout(1.0), "rate must be at least 0 and less than 1, not 1.0"),
        (lambda: nn.dropout(float("nan")), "rate must be at least 0 and less than 1, not nan"),
    ],
)
def test_an_argument_that_cannot_be_is_refused_by_name(make: Any, said: str) -> None:
    with pytest.raises(unidev.InvalidDataError) as caught:
        make()
    assert said in str(caught.value)


def test_a_fraction_may_be_a_number_of_numpys() -> None:
    made = nn.sequential(
        nn.dropout(np.float32(0.5)),
        nn.batch_norm(2, momentum=np.float16(0.5), epsilon=np.float64(0.1)),
    )
    assert made(np.ones((3, 2), "f4")).shape == (3, 2)


@pytest.mark.parametrize("what", [3, "relu", None, np.ones(3), [1], np.tanh])
def test_sequential_refuses_what_is_no_layer(what: Any) -> None:
    with pytest.raises(unidev.NotAModelError):
        nn.sequential(nn.relu(), what)


@pytest.mark.parametrize("kind", [list, tuple])
def test_sequential_of_a_list_says_how_it_is_written(kind: Any) -> None:
    with pytest.raises(unidev.NotAModelError, match=r"sequential\(\*layers\)"):
        nn.sequential(kind([nn.relu(), nn.tanh()]))


@pytest.mark.parametrize("x", [[[1.0, 2.0]], 3.0, None, np.float32(1)])
def test_a_layer_refuses_what_is_no_array(x: Any) -> None:
    with pytest.raises(unidev.NotATensorError, match="takes an array, not a "):
        nn.sequential(nn.dense(2, 2))(x)


@pytest.mark.parametrize(
    ("layer", "shape", "said"),
    [
        (lambda: nn.dense(4, 2), (3, 5), "a weight of shape (2, 4), (outputs, inputs)"),
        (lambda: nn.conv2d(3, 2, 1), (2, 1, 5, 5), "a weight of shape (2, 3, 1, 1)"),
        (lambda: nn.conv2d(1, 2, 3), (1, 5, 5), "images of shape (1, 5, 5)"),
        (lambda: nn.conv2d(1, 2, 3), (1, 1, 2, 5), "a window of 3 by 3 does not fit"),
        (lambda: nn.avg_pool2d(3), (1, 1, 5, 2), "a window of 3 by 3 does not fit"),
        (lambda: nn.max_pool2d(2), (5, 5), "images of shape (5, 5)"),
        (lambda: nn.batch_norm(3), (4, 2), "batch_norm of 3 features"),
        (lambda: nn.batch_norm(3), (4, 3, 2), "batch_norm of 3 features"),
    ],
)
def test_a_shape_that_does_not_fit_is_refused_with_both_shapes(
    layer: Any, shape: tuple[int, ...], said: str
) -> None:
    with pytest.raises(unidev.InvalidDataError) as caught:
        layer()(np.ones(shape, "f4"))
    assert said in str(caught.value)


def test_a_backend_without_layers_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(load_backend("numpy")), "layers", unidev.unsupported("it has none"))
    for make in (lambda: nn.dense(2, 2), nn.relu, nn.sequential):
        with pytest.raises(unidev.UnsupportedOperation, match="it has none"):
            make()


@pytest.mark.parametrize("bias", [None, 1, np.ones(2), "yes"])
def test_a_bias_is_there_or_it_is_not(bias) -> None:
    for layer in (lambda: nn.dense(2, 3, bias=bias), lambda: nn.conv2d(1, 2, 3, bias=bias)):
        with pytest.raises(unidev.InvalidDataError, match="bias must be True or False"):
            layer()
