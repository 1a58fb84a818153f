"""Train on several GPUs with the framework's own Adam, the same on every framework.

A LeNet learns to read scikit-learn's handwritten digits, first on one device and then on two:

    UNIDEV_BACKEND=torch UNIDEV_SIMULATE=2 python examples/own_optimizer.py

The optimizer is made for the model, and knows nothing of the devices: it makes its step on the
first one, and the replicas get the new weights. Up to rounding, they are those of one device. The
backend is torch, tensorflow, paddle, mxnet or jax; NumPy has no gradients.
"""

from multi_gpu import compare, fit, parts
from train_digits import make_net

import unidev

LEARNING_RATE = 0.002
EPSILON = 1e-8
"""The other frameworks' default; Keras's is 1e-7."""


def torch_adam(model, rate):
    """A step of ``torch.optim.Adam``."""
    import torch

    optimizer = torch.optim.Adam(model.parameters(), lr=rate)

    def step(gradients):
        for name, parameter in unidev.parameters(model).items():
            parameter.grad = gradients[name]
        optimizer.step()

    return step


def tensorflow_adam(model, rate):
    """A step of ``keras.optimizers.Adam``, on the device where the model is."""
    import keras

    optimizer = keras.optimizers.Adam(rate, epsilon=EPSILON)

    def step(gradients):
        named = unidev.parameters(model)
        with unidev.device_of(model):
            optimizer.apply_gradients([(g, named[name]) for name, g in gradients.items()])

    return step


def paddle_adam(model, rate):
    """A step of ``paddle.optimizer.Adam``, on the device where the model is."""
    import paddle

    optimizer = paddle.optimizer.Adam(rate, parameters=model.parameters())

    def step(gradients):
        for name, parameter in unidev.parameters(model).items():
            parameter.grad = gradients[name]
        # Paddle makes the moments on its default device, and the weights follow them.
        default = paddle.device.get_device()
        paddle.device.set_device(unidev.device_of(model).native_name)
        try:
            optimizer.step()
        finally:
            paddle.device.set_device(default)

    return step


def mxnet_adam(model, rate):
    """A step of a Gluon ``Trainer``, which refuses gradients that ``backward`` has not marked."""
    from mxnet import gluon, npx

    npx.set_np()  # unidev's nets have NumPy's kind of arrays
    trainer = gluon.Trainer(model.collect_params(), "adam", {"learning_rate": rate}, kvstore=None)

    def step(gradients):
        for name, parameter in unidev.parameters(model).items():
            parameter.grad[:] = gradients[name]
            parameter._fresh_grad = True
        trainer.step(1)  # the gradients are means already

    return step


def jax_adam(model, rate):
    """A step of ``optax.adam``, compiled, with the parameters as a tree: a dict by name."""
    import jax
    import optax

    adam = optax.adam(rate)

    def values():
        return {name: parameter[...] for name, parameter in unidev.parameters(model).items()}

    @jax.jit
    def updated(gradients, state, parameters):
        updates, state = adam.update(gradients, state, parameters)
        return optax.apply_updates(parameters, updates), state

    state = adam.init(values())

    def step(gradients):
        nonlocal state
        new, state = updated(gradients, state, values())
        for name, parameter in unidev.parameters(model).items():
            parameter[...] = new[name]

    return step


ADAMS = {
    "torch": torch_adam,
    "tensorflow": tensorflow_adam,
    "paddle": paddle_adam,
    "mxnet": mxnet_adam,
    "jax": jax_adam,
}


def adam_of(model, rate):
    """``step(gradients)`` of the framework's own Adam for ``model``."""
    backend = unidev.device_of(model).backend
    if backend not in ADAMS:
        raise unidev.UnsupportedOperation("an optimizer", f"{backend} has none")
    return ADAMS[backend](model, rate)


def train(devices, epochs, seed):
    """Train on these devices, and return what was found."""
    unidev.seed(seed)
    net = unidev.DataParallel(make_net(), devices)
    found = fit(net, devices, epochs, seed, adam_of(net.model, LEARNING_RATE))
    return {**found, **parts(net)}


if __name__ == "__main__":
    compare("own_optimizer", __doc__, train)
