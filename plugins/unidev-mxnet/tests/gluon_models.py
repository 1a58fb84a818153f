"""Nets of Gluon's own for the tests, made and trained without unidev."""

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon
from mxnet.gluon import nn

X = np.linspace(-1, 1, 64, dtype="float32").reshape(16, 4)
Y = np.sin(X @ np.arange(12, dtype="float32").reshape(4, 3))


def numpy_semantics():
    return mx.util.np_shape(True), mx.util.np_array(True)


def make_net(context=None, *, legacy=False):
    """Dense, batch norm, a frozen layer, a tied one; weights are the same each time."""
    shapes, arrays = numpy_semantics() if not legacy else (mx.util.np_shape(False),) * 2
    with shapes, arrays:
        net = nn.HybridSequential(prefix="net_")
        tied = nn.Dense(4, in_units=4, activation="tanh")
        again = nn.Dense(4, in_units=4, params=tied.params)
        net.add(tied, nn.BatchNorm(in_channels=4), nn.Dense(4, in_units=4), again)
        net.add(nn.Dense(3, in_units=4))
        net.initialize(mx.init.Zero(), ctx=context or mx.cpu())
        drawn = np.random.default_rng(3)
        for name, parameter in sorted(net._collect_params_with_prefix().items()):
            if name.endswith(("weight", "bias")):
                value = drawn.normal(size=parameter.shape, scale=0.5).astype("float32")
                parameter.set_data(mx.nd.array(value) if legacy else mx.np.array(value))
        net[2].collect_params().setattr("grad_req", "null")
    return net


def make_trainer(net, optimizer="sgd", **options):
    options = options or ({"momentum": 0.9} if optimizer == "sgd" else {})
    shapes, arrays = numpy_semantics()
    with shapes, arrays:
        return gluon.Trainer(net.collect_params(), optimizer, {"learning_rate": 0.05, **options})


def train(net, trainer, context, steps=3):
    """Losses of some steps, by MXNet alone."""
    losses = []
    shapes, arrays = numpy_semantics()
    with shapes, arrays:
        x, y = mx.np.array(X, ctx=context), mx.np.array(Y, ctx=context)
        for _ in range(steps):
            with autograd.record():
                loss = mx.np.square(net(x) - y).mean()
            loss.backward()
            trainer.step(1)
            losses.append(loss.item())
    return losses


def output(net, context):
    shapes, arrays = numpy_semantics()
    with shapes, arrays:
        return net(mx.np.array(X, ctx=context)).asnumpy().tobytes()


def arrays_of(net):
    """Values and gradients."""
    found = []
    for parameter in net.collect_params().values():
        found += parameter.list_data()
        found += parameter.list_grad() if parameter.grad_req != "null" else []
    return found
