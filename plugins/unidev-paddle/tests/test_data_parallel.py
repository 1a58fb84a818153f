"""``DataParallel`` of Paddle's layers, compiled ones too, against one device."""

import numpy as np
import paddle
import pytest
from training_checks import THREE, arrays, batch, check_like, check_training, squares

import unidev

# Paddle warns of `place` in graphs, which the caller of a layer does not ask for, and the like.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


class Compiled(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.inner = made()

    @paddle.jit.to_static
    def forward(self, x):
        return self.inner(x)


def made():
    paddle.seed(1)
    return paddle.nn.Sequential(paddle.nn.Linear(4, 8), paddle.nn.Tanh(), paddle.nn.Linear(8, 2))


MODELS = {
    "layers": made,
    "to_static": lambda: paddle.jit.to_static(made()),
    "whole graph": lambda: paddle.jit.to_static(made(), full_graph=True),
    "decorated": Compiled,
}
COMPILED = [name for name in MODELS if name != "layers"]


@pytest.mark.parametrize(
    ("name", "loss_of"),
    # Paddle itself cannot call a layer that to_static wraps in a loss that it wraps too.
    [*((name, squares) for name in COMPILED), ("layers", paddle.jit.to_static(squares))],
)
def test_each_kind_of_layer_trains_as_on_one_device(name, loss_of):
    alone = unidev.place(made(), "gpu:0")
    check_training(unidev.DataParallel(MODELS[name](), THREE), alone, batch(), loss_of)


def test_paddles_own_adam_takes_the_steps_and_set_value_is_seen():
    x, y = batch()
    models = [made(), made()]
    net = unidev.DataParallel(models[0], THREE)
    unidev.place(models[1], "gpu:0")
    for model, given in zip(models, (net, models[1]), strict=True):
        optimizer = paddle.optimizer.Adam(0.01, parameters=model.parameters())
        for _ in range(20):
            _, gradients = unidev.value_and_grad(squares)(given, x, y)
            for name, parameter in unidev.parameters(given).items():
                parameter.grad = gradients[name]
            optimizer.step()
            optimizer.clear_grad()
    check_like(net, models[1])
    for model in models:  # new memory for the same parameter
        model[0].bias.set_value(np.arange(8, dtype="float32"))
    check_like(net, models[1])
    np.testing.assert_allclose(unidev.to_numpy(net(x)), unidev.to_numpy(models[1](x)), atol=1e-5)
    assert arrays(net)[1].tolist() == list(range(8))


def test_a_copy_of_what_to_static_wraps_would_be_wrong_and_is_refused():
    model = MODELS["to_static"]()
    with pytest.raises(unidev.UnsupportedOperation, match="DataParallel"):
        unidev.replicate(model, THREE)
    first, _ = unidev.replicate(made(), THREE[:2])
    assert [x.tolist() for x in arrays(first)] == [x.tolist() for x in arrays(model)]


def test_weight_norm_trains_as_on_one_device():
    """It binds the weight that it computes anew in each forward."""

    def normed():
        paddle.seed(1)
        inner = paddle.nn.utils.weight_norm(paddle.nn.Linear(4, 8))
        return paddle.nn.Sequential(inner, paddle.nn.Linear(8, 2))

    several = unidev.DataParallel(normed(), THREE)
    check_training(several, unidev.place(normed(), "gpu:0"), batch())
    assert unidev.device_of(several.model[0].weight) is unidev.gpu(0)
    unidev.spread(several.model, ["gpu:0", "gpu:1"])
