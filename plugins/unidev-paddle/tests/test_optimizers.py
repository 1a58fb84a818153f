"""Paddle's optimizers and models that move: whoever was made before trains on."""

from __future__ import annotations

import contextlib

import numpy as np
import paddle
import pytest

import unidev

GPU = unidev.gpu(1)
X = np.linspace(-1, 1, 24, dtype=np.float32).reshape(6, 4)


@contextlib.contextmanager
def default_device(device):
    """Paddle makes an optimizer's state on its default device, so that has to be the model's."""
    before = paddle.get_device()
    paddle.set_device(unidev.as_device(device).native_name)
    try:
        yield
    finally:
        paddle.set_device(before)


def network():
    unidev.seed(3)
    return unidev.nn.sequential(
        unidev.nn.dense(4, 8), unidev.nn.batch_norm(8), unidev.nn.tanh(), unidev.nn.dense(8, 2)
    )


def step(model, optimizer):
    device = unidev.device_of(model)
    with default_device(device):
        loss = (model(unidev.array(X, device=device)) ** 2).mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
    assert unidev.device_of(model) is device
    return float(loss)


def state(optimizer):
    return [x for x in optimizer.state_dict().values() if isinstance(x, paddle.Tensor)]


OPTIMIZERS = {
    "SGD": lambda xs: paddle.optimizer.SGD(0.1, parameters=xs),
    "Momentum": lambda xs: paddle.optimizer.Momentum(0.1, parameters=xs),
    "Adam": lambda xs: paddle.optimizer.Adam(0.1, parameters=xs),
    "AdamW": lambda xs: paddle.optimizer.AdamW(0.1, parameters=xs),
    "Adamax": lambda xs: paddle.optimizer.Adamax(0.1, parameters=xs),
    "Adagrad": lambda xs: paddle.optimizer.Adagrad(0.1, parameters=xs),
    "Lamb": lambda xs: paddle.optimizer.Lamb(0.1, parameters=xs),
    "scheduled": lambda xs: paddle.optimizer.Adam(
        paddle.optimizer.lr.ExponentialDecay(0.1, 0.9), parameters=xs
    ),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_made_before_trains_as_if_nothing_had_moved(name):
    still, moved = network(), network()
    optimizers = [OPTIMIZERS[name](model.parameters()) for model in (still, moved)]
    expected, found = [], []
    for device in ("cpu", "gpu:1", "gpu:2", "cpu"):
        given, returned = unidev.place(moved, device, optimizer=optimizers[1])
        assert given is moved
        assert returned is optimizers[1]
        for _ in range(2):
            expected.append(step(still, optimizers[0]))
            found.append(step(moved, optimizers[1]))
    assert found == expected
    assert expected[-1] < expected[0]


def test_a_model_that_is_there_still_takes_the_state_along():
    model = network()
    optimizer = OPTIMIZERS["Momentum"](model.parameters())
    step(model, optimizer)
    unidev.place(model, GPU)
    assert {unidev.device_of(x) for x in state(optimizer)} == {unidev.cpu()}
    unidev.place(model, GPU, optimizer=optimizer)
    assert {unidev.device_of(x) for x in state(optimizer)} == {GPU}


def test_master_weights_move_along():
    model = paddle.nn.Linear(4, 2).to("cpu", dtype="bfloat16")
    optimizer = paddle.optimizer.Momentum(0.1, parameters=model.parameters(), multi_precision=True)
    with default_device("cpu"):
        masters = [optimizer._create_master_weight(x) for x in model.parameters()]
        block = paddle.static.default_main_program().global_block()
        optimizer._create_accumulators(block, model.parameters())
    unidev.place(model, GPU, optimizer=optimizer)
    held = [*optimizer._master_weights.values(), *optimizer._accumulators["velocity"].values()]
    assert len(held) == 4
    assert {unidev.device_of(x) for x in held} == {GPU}
    assert [x.dtype for x in masters] == [paddle.float32] * 2


def test_state_for_another_models_parameters_stays():
    mine, other = network(), network()
    optimizer = OPTIMIZERS["Momentum"]([*mine.parameters(), *other.parameters()])
    step(mine, optimizer)
    step(other, optimizer)
    unidev.place(mine, GPU, optimizer=optimizer)
    velocity = optimizer._accumulators["velocity"]
    for model, device in ((mine, GPU), (other, unidev.cpu())):
        assert {unidev.device_of(velocity[x.name]) for x in unidev.parameters(model).values()} == {
            device
        }


@pytest.mark.filterwarnings("ignore:To copy construct from a tensor:UserWarning")
@pytest.mark.filterwarnings(r"ignore:\s*Non compatible API")  # 3.2 says so of its own calls
def test_the_state_of_lbfgs_moves_along():
    model = unidev.nn.dense(4, 2)
    optimizer = paddle.optimizer.LBFGS(parameters=model.parameters(), max_iter=3)

    def closure():
        optimizer.clear_grad()
        device = unidev.device_of(model)
        loss = (model(unidev.array(X, device=device)) ** 2).mean()
        loss.backward()
        return loss

    with default_device("cpu"):
        optimizer.step(closure)
    unidev.place(model, GPU, optimizer=optimizer)
    assert unidev.device_of(optimizer.state["d"]) is GPU
    with default_device(GPU):
        optimizer.step(closure)
    assert unidev.device_of(model) is GPU


def test_a_learning_rate_that_others_need_on_the_cpu_stays_there():
    mine, other = network(), network()
    optimizer = paddle.optimizer.SGD(0.1, parameters=[*mine.parameters(), *other.parameters()])
    step(mine, optimizer)
    unidev.place(mine, GPU, optimizer=optimizer)
    step(other, optimizer)  # says that it is where it was
    step(mine, optimizer)
    unidev.place(mine, "cpu", optimizer=optimizer)
    step(mine, optimizer)


@pytest.mark.filterwarnings("ignore:Op `increment` is executed:DeprecationWarning")
def test_what_a_look_ahead_wraps_moves_along():
    model = network()
    inner = OPTIMIZERS["Adam"](model.parameters())
    optimizer = paddle.incubate.LookAhead(inner, k=1)
    step(model, optimizer)
    unidev.place(model, GPU, optimizer=optimizer)
    held = [*state(inner), *optimizer._accumulators["slow"].values()]
    assert {unidev.device_of(x) for x in held} == {GPU}
    step(model, optimizer)


@pytest.mark.parametrize(
    ("made", "said"),
    [(OPTIMIZERS["SGD"], "none of the model's parameters"), (lambda _: object(), "Optimizer")],
)
def test_what_does_not_train_the_model_is_refused(made, said):
    model = network()
    with pytest.raises(unidev.UnsupportedOperation, match=said):
        unidev.place(model, GPU, optimizer=made(network().parameters()))
    assert unidev.device_of(model) is unidev.cpu()
