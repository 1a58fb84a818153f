"""``unidev.nn.functional`` in front of NumPy's functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import unidev
from unidev.nn import functional as F


@pytest.fixture(autouse=True)
def on_numpy(two_gpus: None) -> None:
    unidev.seed(3)


def normal(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).standard_normal(shape, dtype="f4")


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
        (lambda: F.avg_pool2d(normal(1, 4, 4), 2), "width), not of shape (1, 4, 4)"),
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


class Traced:
    """What a graph knows of a tensor: of some lengths nothing, which is None or -1."""

    def __init__(self, *shape: int | None) -> None:
        self.shape = shape


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


def test_an_empty_batch_stays_one() -> None:
    empty = F.flatten(np.zeros((0, 3, 2), "f4"))
    assert empty.shape == (0, 6)
    assert F.linear(empty, normal(4, 6), normal(4)).shape == (0, 4)
