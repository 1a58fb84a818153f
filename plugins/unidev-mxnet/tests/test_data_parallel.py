"""``DataParallel`` of Gluon's blocks, hybridized ones too, against one device."""

import mxnet as mx
import numpy as np
import pytest
from mxnet import gluon
from training_checks import THREE, arrays, check_like, check_training, squares

import unidev

HYBRIDIZED = {
    "hybridized": {},
    "static_alloc": {"static_alloc": True},
    "static_shape": {"static_alloc": True, "static_shape": True},
}


def made():
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Dense(8, in_units=4, activation="tanh"), gluon.nn.Dense(2, in_units=8))
    net.initialize()
    numbers = np.random.default_rng(1)
    for parameter in net.collect_params().values():
        parameter.set_data(mx.nd.array(numbers.standard_normal(parameter.shape)))
    return net


def batch(rows=31):
    """In arrays of the older kind, which is what Gluon's blocks take unless NumPy's is set."""
    numbers = np.random.default_rng(rows).standard_normal((rows, 6)).astype("float32")
    home = unidev.as_device("gpu:0").native
    return mx.nd.array(numbers[:, :4], ctx=home), mx.nd.array(numbers[:, 4:], ctx=home)


@pytest.mark.parametrize("rows", [30, 31])
@pytest.mark.parametrize("name", HYBRIDIZED)
def test_hybridized_blocks_train_as_on_one_device(name, rows):
    x, y = batch(rows)
    model, alone = made(), unidev.place(made(), "gpu:0")
    model.hybridize(**HYBRIDIZED[name])
    model(mx.nd.ones((11, 4)))
    net = unidev.DataParallel(model, THREE)
    check_training(net, alone, (x, y))
    np.testing.assert_allclose(net(x).asnumpy(), alone(x).asnumpy(), atol=1e-5)


def test_a_trainer_takes_the_steps_if_its_gradients_are_fresh():
    x, y = batch()
    models = [made(), made()]
    net = unidev.DataParallel(models[0], THREE)
    unidev.place(models[1], "gpu:0")
    for model, given in zip(models, (net, models[1]), strict=True):
        trainer = gluon.Trainer(model.collect_params(), "adam", {"learning_rate": 0.01})
        for _ in range(20):
            _, gradients = unidev.value_and_grad(squares)(given, x, y)
            for name, parameter in unidev.parameters(given).items():
                parameter.grad[:] = gradients[name]
                parameter._fresh_grad = True
            trainer.step(1)
    check_like(net, models[1])
    unidev.value_and_grad(squares)(net, x, y)
    trainer = gluon.Trainer(net.model.collect_params(), "adam")
    with pytest.raises(UserWarning, match="not been updated by backward"):  # Gluon's own check
        trainer.step(1)


def test_a_hybridized_block_that_has_run_cannot_be_copied():
    net = made()
    net.hybridize()
    net(mx.nd.ones((2, 4)))
    with pytest.raises(unidev.UnsupportedOperation, match="DataParallel"):
        unidev.replicate(net, THREE)
    first, _ = unidev.replicate(made(), THREE[:2])
    assert [x.tolist() for x in arrays(first)] == [x.tolist() for x in arrays(net)]


def test_blocks_without_shapes_are_refused():
    net = gluon.nn.Dense(2)
    net.initialize()
    with pytest.raises(unidev.UnsupportedOperation, match="no memory yet"):
        unidev.DataParallel(net, THREE)
