"""unidev's layers and functions on Paddle: Paddle's own, on the CPU, and right."""

from __future__ import annotations

import numpy as np
import paddle
import pytest

import unidev
from unidev.nn import functional

GPU = unidev.gpu(1)


def numbers(*shape):
    return np.random.default_rng(sum(shape)).uniform(-1, 1, shape).astype(np.float32)


def test_layers_are_paddles_own():
    made = unidev.nn.sequential(
        unidev.nn.conv2d(1, 2, 3), unidev.nn.batch_norm(2), unidev.nn.relu(), unidev.nn.dense(2, 1)
    )
    kinds = (paddle.nn.Conv2D, paddle.nn.BatchNorm2D, paddle.nn.ReLU, paddle.nn.Linear)
    assert isinstance(made, paddle.nn.Sequential)
    assert [isinstance(layer, kind) for layer, kind in zip(made, kinds, strict=True)] == [True] * 4


def test_they_are_made_on_the_cpu_whatever_paddles_default_is():
    assert paddle.get_device() == "sim:0"
    before = unidev.memory(unidev.gpu(0)).used_bytes
    made = unidev.nn.sequential(
        unidev.nn.dense(3, 2), unidev.nn.conv2d(1, 2, 3), unidev.nn.batch_norm(2)
    )
    assert {unidev.device_of(x) for x in made.state_dict().values()} == {unidev.cpu()}
    assert unidev.memory(unidev.gpu(0)).used_bytes == before
    assert paddle.get_device() == "sim:0"


def test_they_are_float32_whatever_paddles_default_is():
    paddle.set_default_dtype("float64")
    try:
        made = unidev.nn.sequential(
            unidev.nn.conv2d(1, 2, 1), unidev.nn.batch_norm(2), unidev.nn.dense(2, 1)
        )
        out = made(unidev.ones((1, 1, 2, 2)))
    finally:
        paddle.set_default_dtype("float32")
    assert {x.dtype for x in made.state_dict().values()} == {out.dtype} == {paddle.float32}


def test_under_lazy_guard_they_have_their_weights_all_the_same():
    with paddle.LazyGuard():
        made = unidev.nn.dense(3, 2)
    before = made.weight.numpy().tolist()
    assert unidev.device_of(made) is unidev.cpu()
    for x in made.parameters():
        x.initialize()
    assert made.weight.numpy().tolist() == before


@pytest.mark.parametrize("device", ["cpu", "gpu:1"])
def test_a_label_that_paddle_leaves_out_by_default_is_out_of_range(device):
    logits, labels = unidev.ones((2, 3), device=device), unidev.array([0, -100], device=device)
    with pytest.raises(unidev.FrameworkError, match="label value should >= 0"):
        functional.softmax_cross_entropy(logits, labels)


def test_lengths_that_a_traced_function_does_not_know_may_be_any():
    images = paddle.static.InputSpec([None, 1, None, None], "float32")

    @paddle.jit.to_static(full_graph=True, input_spec=[images])
    def pooled(x):
        return functional.avg_pool2d(functional.conv2d(x, weight), 2)

    weight = unidev.ones((2, 1, 3, 3))
    assert pooled(unidev.ones((2, 1, 8, 6))).shape == [2, 2, 3, 2]


def test_functions_that_are_traced_run_as_they_are_written():
    @paddle.jit.to_static(full_graph=True)
    def loss_of(x, weight):
        return functional.mean_squared_error(functional.linear(x, weight), unidev_zeros)

    unidev_zeros = unidev.zeros((2, 4))
    x, weight = unidev.array(numbers(2, 3)), unidev.array(numbers(4, 3))
    expected = ((x.numpy() @ weight.numpy().T) ** 2).mean()
    assert np.allclose(loss_of(x, weight).numpy(), expected, atol=1e-5)
