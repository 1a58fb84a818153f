"""``unidev.nn.functional`` in front of NumPy's functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import unidev
from unidev import nn
from unidev.nn import functional as F


@pytest.fixture(autouse=True)
def on_numpy(two_gpus: None) -> None:
    unidev.seed(3)


def normal(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).standard_normal(shape, dtype="f4")


def test_functions_compute_what_the_layers_do() -> None:
    x, images = normal(5, 4), normal(2, 3, 7, 6)
    dense, conv = nn.dense(4, 3), nn.conv2d(3, 2, (3, 2), stride=(2, 1), padding=(1, 0))
    pairs = [
        (F.linear(x, *unidev.parameters(dense).values()), dense(x)),
        (F.linear(x, dense.parameters["weight"]), dense(x)),  # its bias is zero
        (F.conv2d(images, *unidev.parameters(conv).values(), stride=(2, 1), padding=(1, 0)),
         conv(images)),
        (F.avg_pool2d(images, 3, stride=2), nn.avg_pool2d(3, stride=2)(images)),
        (F.avg_pool2d(images, (1, 2)), nn.avg_pool2d((1, 2))(images)),
        (F.max_pool2d(images, 3, stride=2), nn.max_pool2d(3, stride=2)(images)),
        (F.flatten(images), nn.flatten()(images)),
        (F.flatten(images[:0]), np.zeros((0, 126))),
        (F.relu(x), nn.relu()(x)),
        (F.tanh(x), nn.tanh()(x)),
    ]  # fmt: skip
    for found, expected in pairs:
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, expected)


def test_cross_entropy_is_the_mean_of_minus_log_softmax() -> None:
    logits, labels = normal(6, 3), np.array([0, 1, 2, 2, 1, 0])
    softmax = np.exp(logits.astype("f8"))
    softmax /= softmax.sum(1, keepdims=True)
    expected = -np.log(softmax[np.arange(6), labels]).mean()
    loss = F.softmax_cross_entropy(logits, labels)
    assert (type(loss), loss.shape, loss.dtype) == (np.ndarray, (), np.float32)
    assert float(loss) == pytest.approx(expected, rel=1e-5)


def test_cross_entropy_of_large_logits_does_not_overflow() -> None:
    logits = np.array([[1e4, 0.0], [0.0, 1e4]], "f4")
    assert float(F.softmax_cross_entropy(logits, np.array([0, 1]))) == 0
    assert float(F.softmax_cross_entropy(logits, np.array([1, 0]))) == 1e4


@pytest.mark.parametrize("wrong", [np.ndarray, float, 5, "x", [1.0]], ids=str)
@pytest.mark.parametrize(
    "call",
    [
        F.relu, F.tanh, lambda x: F.linear(x, normal(1, 1)), lambda x: F.linear(normal(1, 1), x),
        lambda x: F.linear(normal(1, 1), normal(1, 1), x),
        lambda x: F.conv2d(x, normal(1, 1, 1, 1)),
        lambda x: F.conv2d(normal(1, 1, 1, 1), x), lambda x: F.avg_pool2d(x, 1),
        lambda x: F.mean_squared_error(x, x), lambda x: F.softmax_cross_entropy(x, x),
    ],
)  # fmt: skip
def test_neither_a_class_nor_a_number_is_a_tensor(call: Any, wrong: object) -> None:
    with pytest.raises(unidev.NotATensorError):
        call(wrong)


def test_the_squared_error_is_a_mean_over_all_elements() -> None:
    loss = F.mean_squared_error(np.array([[1.0, 2.0]], "f4"), np.array([[3.0, 2.0]], "f4"))
    assert (type(loss), loss.shape, loss.dtype, float(loss)) == (np.ndarray, (), np.float32, 2)


def test_results_are_where_the_operands_are() -> None:
    def there(*shape: int) -> Any:
        return unidev.array(normal(*shape), device="gpu:1")

    labels = unidev.array([0, 1], device="gpu:1")
    for result in (
        F.linear(there(2, 3), there(4, 3), there(4)),
        F.conv2d(there(1, 2, 4, 4), there(3, 2, 2, 2), there(3), padding=1),
        F.avg_pool2d(there(1, 2, 4, 4), 2),
        F.relu(there(2)),
        F.tanh(there(2)),
        F.softmax_cross_entropy(there(2, 3), labels),
        F.mean_squared_error(there(2, 3), there(2, 3)),
    ):
        assert unidev.device_of(result) is unidev.gpu(1)


def test_operands_on_two_devices_are_refused_by_name() -> None:
    x, weight = normal(2, 3), unidev.array(normal(4, 3), device="gpu:1")
    with pytest.raises(unidev.DeviceMismatchError, match=r"x: cpu:0, weight: gpu:1"):
        F.linear(x, weight)
    with pytest.raises(unidev.DeviceMismatchError, match=r"predictions: gpu:1, targets: cpu:0"):
        F.mean_squared_error(weight, normal(4, 3))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: F.linear(normal(2, 3), normal(4, 5)), "does not match an x of shape (2, 3)"),
        (lambda: F.conv2d(normal(1, 1, 4, 4), normal(1, 2, 3, 3)), "(1, 2, 3, 3)"),
        (lambda: F.linear(normal(2, 3), normal(3)), "a weight must be (outputs, inputs)"),
        (lambda: F.linear(normal(2, 3), normal(4, 3), normal(1)), "a bias (1,) does not match"),
        (lambda: F.linear(normal(2, 3), normal(4, 3), normal(2, 4)), "a bias (2, 4) does not"),
        (lambda: F.conv2d(normal(1, 2, 4, 4), normal(2, 1, 3, 3)), "images (1, 2, 4, 4)"),
        (lambda: F.conv2d(normal(2, 4, 4), normal(1, 2, 3, 3)), "images (2, 4, 4)"),
        (lambda: F.conv2d(normal(1, 1, 4, 2), normal(1, 1, 3, 3)), "a window of (3, 3) does not"),
        (
            lambda: F.conv2d(normal(1, 1, 2, 4), normal(1, 1, 5, 1), padding=(1, 0)),
            "padding (1, 0)",
        ),
        (lambda: F.conv2d(normal(1, 1, 4, 4), normal(2, 1, 3, 3), normal(1)), "a bias (1,)"),
        (
            lambda: F.avg_pool2d(normal(1, 4, 4), 2),
            "width), not of shape (1, 4, 4)",
        ),
        (lambda: F.avg_pool2d(normal(1, 1, 2, 2), 3), "a window of (3, 3) does not fit"),
        (lambda: F.avg_pool2d(normal(1, 1, 4, 2), (1, 3)), "images (1, 1, 4, 2)"),
        (lambda: F.max_pool2d(normal(4, 2), 2), "not of shape (4, 2)"),
        (lambda: F.flatten(normal(4)), "flatten needs at least two dimensions, not (4,)"),
        (lambda: F.avg_pool2d(normal(1, 1, 2, 2), 0), "kernel_size must be a positive integer"),
        (lambda: F.conv2d(normal(1, 1, 4, 4), normal(1, 1, 3, 3), stride=-1), "stride must be"),
        (lambda: F.softmax_cross_entropy(normal(2, 3), np.array([0, 3])), "range from 0 to 3"),
        (lambda: F.softmax_cross_entropy(normal(2, 3), np.array([0, -1])), "range from -1 to 0"),
        (lambda: F.softmax_cross_entropy(normal(2, 3), normal(2)), "integers, not float32"),
        (lambda: F.softmax_cross_entropy(normal(2, 3), np.zeros(2, "?")), "integers, not bool"),
        (lambda: F.softmax_cross_entropy(normal(2, 3), np.zeros((2, 1), int)), "labels (2, 1)"),
        (lambda: F.softmax_cross_entropy(normal(3), np.zeros(3, int)), "logits (3,)"),
        (lambda: F.mean_squared_error(normal(3, 1), normal(3)), "targets (3,)"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_was_found(call: Any, said: str) -> None:
    with pytest.raises(unidev.InvalidDataError) as caught:
        call()
    assert said in str(caught.value)


@pytest.mark.parametrize("x", [3.0, [1.0], None, "x"])
def test_what_is_no_tensor_is_refused(x: Any) -> None:
    weight = normal(2, 2)
    for call in (
        lambda: F.relu(x),
        lambda: F.linear(x, weight),
        lambda: F.linear(weight, x),
        lambda: F.conv2d(normal(1, 1, 2, 2), x),
        lambda: F.conv2d(x, normal(1, 1, 2, 2)),
        lambda: F.avg_pool2d(x, 2),
        lambda: F.mean_squared_error(x, weight),
        lambda: F.softmax_cross_entropy(weight, x),
    ):
        with pytest.raises(unidev.NotATensorError):
            call()


class Traced:
    """What a graph knows of a tensor: of some lengths nothing, which is None or -1."""

    def __init__(self, *shape: int | None) -> None:
        self.shape = shape


def test_padding_counts_on_both_sides_of_a_window() -> None:
    ones = np.ones((1, 1, 3, 3), "f4")
    assert F.conv2d(ones, np.ones((1, 1, 5, 5), "f4"), padding=1).tolist() == [[[[9.0]]]]


@pytest.mark.parametrize("unknown", [None, -1])
def test_a_length_that_a_graph_does_not_know_yet_may_be_any(
    monkeypatch: pytest.MonkeyPatch, unknown: int | None
) -> None:
    asked = []
    monkeypatch.setattr(F, "_call", lambda name, *_: asked.append(name))
    images = Traced(unknown, 1, unknown, unknown)
    F.avg_pool2d(images, 2)
    F.conv2d(images, normal(2, 1, 3, 3))
    F.mean_squared_error(Traced(unknown, 3), Traced(4, 3))
    assert asked == ["avg_pool2d", "conv2d", "mean_squared_error"]
    with pytest.raises(unidev.InvalidDataError, match="does not fit into images"):
        F.avg_pool2d(Traced(unknown, 1, unknown, 1), 2)
