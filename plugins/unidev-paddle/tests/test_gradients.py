"""Gradients by Paddle's autograd, and steps with them."""

from __future__ import annotations

import numpy as np
import paddle
import pytest
from turns import in_threads

import unidev

GPU = unidev.gpu(1)


def squares(x):
    return (x**2).sum()


def test_a_tensor_inside_a_graph_gets_a_gradient_and_passes_none_on():
    x = unidev.ones(3)
    x.stop_gradient = False
    _, slope = unidev.value_and_grad(squares)(x * 3)
    assert slope.numpy().tolist() == [6, 6, 6]
    assert x.grad is None


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("device", ["cpu", "gpu:1"])
def test_the_gradient_of_an_embedding_is_dense_and_on_its_device(device, sparse):
    model = unidev.place(paddle.nn.Embedding(4, 2, sparse=sparse), device)
    rows = unidev.array([1, 3, 1], device=device)
    _, slopes = unidev.value_and_grad(lambda m: m(rows).sum())(model)
    assert unidev.device_of(slopes["weight"]) is unidev.as_device(device)
    assert slopes["weight"].numpy().tolist() == [[0, 0], [2, 2], [0, 0], [1, 1]]
    before = model.weight.numpy()
    unidev.sgd(model, slopes, lr=0.5)
    assert np.allclose(before - model.weight.numpy(), [[0, 0], [1, 1], [0, 0], [0.5, 0.5]])


def test_gradients_of_several_threads_do_not_mix():
    wrong = []

    def work(number):
        model = unidev.place(unidev.nn.dense(3, 1), f"gpu:{number % 3}")
        x = unidev.full((1, 3), float(number), device=unidev.device_of(model))
        for _ in range(20):
            _, slopes = unidev.value_and_grad(lambda m: m(x).sum())(model)
            if slopes["weight"].numpy().ravel().tolist() != [number] * 3:
                wrong.append(number)

    in_threads(work, range(4))
    assert not wrong


def test_a_loop_of_steps_keeps_no_memory():
    model = unidev.place(unidev.nn.dense(100, 100), GPU)
    x = unidev.ones((1, 100), device=GPU)

    def step():
        _, slopes = unidev.value_and_grad(lambda m: squares(m(x)))(model)
        unidev.sgd(model, slopes, lr=1e-3)

    step()
    before = unidev.memory(GPU).used_bytes
    for _ in range(10):
        step()
    assert unidev.memory(GPU).used_bytes == before


@pytest.mark.parametrize("place", ["cpu:0", "gpu:1"])
def test_a_step_of_rows_stays_in_their_memory(place: str) -> None:
    """``assign_out_`` writes them to the start of the memory around them, as an LSTM's weights."""
    whole = unidev.ones((3, 2), device=place)
    with unidev.as_device(place):
        rows = whole[1:]
    unidev.sgd([rows], [unidev.ones((2, 2), device=place)], lr=0.5)
    assert unidev.to_numpy(whole).tolist() == [[1, 1], [0.5, 0.5], [0.5, 0.5]]
