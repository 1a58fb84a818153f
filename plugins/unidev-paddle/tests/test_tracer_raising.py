"""``begin`` and ``end``: when they are called, and what becomes of what ``begin`` raises."""

from __future__ import annotations

import numpy as np
import paddle
import pytest
from tracing import GPU, GPU_1, VALUES, Forbidden, forbidden, on, originals, recorded

import unidev

__all__ = ["originals"]  # a fixture, of every test here


@pytest.mark.parametrize(
    "move",
    [
        lambda x, y: x.numpy(),
        lambda x, y: x.sum().item(),
        lambda x, y: float(x.sum()),
        lambda x, y: bool(x.sum()),
        lambda x, y: [0][x[0, 0].astype("int64")],
        lambda x, y: print(x),  # noqa: T201
        lambda x, y: f"{x}",
        lambda x, y: np.asarray(x),
        lambda x, y: np.array([x, x]),
        lambda x, y: np.array(x.value().get_tensor()),
        lambda x, y: x.cpu(),
        lambda x, y: x.to(y.place),
        lambda x, y: x.add_(y),
        lambda x, y: x.copy_(y, True),
        lambda x, y: x.set_value(y),
        lambda x, y: x.set_value(VALUES),
        lambda x, y: x.__setitem__(0, y[0]),
        lambda x, y: x[y > 1],
        lambda x, y: paddle.matmul(x, y, transpose_y=True),
        lambda x, y: paddle.to_tensor(VALUES, place=GPU.native),
        lambda x, y: paddle.nn.Linear(3, 2).to("sim:1"),
        lambda x, y: paddle.full([2], x[0, 1]),
    ],
)
def test_what_begin_raises_arrives_as_it_is_and_nothing_has_moved(move, capsys):
    x, y = on(GPU), on(GPU_1)
    before = paddle.device.get_device()
    paddle.set_device("sim:0")
    try:
        with forbidden(), pytest.raises(Forbidden) as raised:
            move(x, y)
    finally:
        paddle.set_device(before)
    assert raised.value.__cause__ is None
    assert capsys.readouterr().out == ""
    assert (unidev.device_of(x), unidev.device_of(y)) == (GPU, GPU_1)
    assert x.numpy().tolist() == VALUES.tolist()


class Reads(paddle.autograd.PyLayer):
    """Looks at its gradient."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        gradient.numpy()
        return gradient


def loss_through(kind, x):
    if kind == "hook":
        y = x * 2
        y.register_hook(lambda gradient: gradient.numpy() and None)
        return y.sum()
    return (Reads.apply(x) if kind == "layer" else unidev.copy_to(x, GPU_1)).sum()


@pytest.mark.parametrize("kind", ["layer", "hook", "copy"])
@pytest.mark.parametrize("backward", [lambda y, x: y.backward(), paddle.grad])
def test_what_begin_raises_in_backward_arrives_as_it_is(kind, backward):
    x = on(GPU, stop_gradient=False)
    loss = loss_through(kind, x)
    with forbidden(), pytest.raises(Forbidden) as raised:
        backward(loss, x)
    assert raised.value.__cause__ is None
    assert x.grad is None
    backward(loss_through("copy", x), x)


@pytest.mark.parametrize(
    "fail",
    [
        lambda x: x.item(),
        lambda x: x.reshape([7]),
        lambda x: x + on(GPU_1, VALUES.T),
        lambda x: x[7],
        lambda x: x.sum().backward(7),
    ],
)
def test_paddles_own_errors_stay_what_they_are(fail):
    x = on(GPU)
    with pytest.raises(Exception) as outside:  # noqa: PT011  of whatever kind
        fail(x)
    with recorded(), pytest.raises(type(outside.value)) as inside:
        fail(x)
    assert type(inside.value) is type(outside.value)
    assert str(inside.value).splitlines()[:1] == str(outside.value).splitlines()[:1]
