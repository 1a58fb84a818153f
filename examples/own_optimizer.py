"""Train on several GPUs with the framework's own Adam, the same on every framework.

A LeNet learns to read scikit-learn's handwritten digits, first on one device and then on two:

    UNIDEV_BACKEND=torch UNIDEV_SIMULATE=2 python examples/own_optimizer.py

The optimizer is made for the model, and knows nothing of the devices: it makes its step on the
first one, and the replicas get the new weights. Up to rounding, they are those of one device. The
backend is torch, tensorflow, paddle or mxnet; NumPy has no gradients.
"""

from multi_gpu import compare, fit, parts
from train_digits import make_net

import unidev

LEARNING_RATE = 0.002


def torch_adam(net):
    """A step of ``torch.optim.Adam``."""
    import torch

    optimizer = torch.optim.Adam(net.model.parameters(), lr=LEARNING_RATE)

    def step(gradients):
        for name, parameter in unidev.parameters(net).items():
            parameter.grad = gradients[name]
        optimizer.step()

    return step


def tensorflow_adam(net):
    """A step of ``keras.optimizers.Adam``, on the device where the model is."""
    import keras

    optimizer = keras.optimizers.Adam(LEARNING_RATE)

    def step(gradients):
        named = unidev.parameters(net)
        with unidev.device_of(net):
            optimizer.apply_gradients([(g, named[name]) for name, g in gradients.items()])

    return step


def paddle_adam(net):
    """A step of ``paddle.optimizer.Adam``."""
    import paddle

    optimizer = paddle.optimizer.Adam(LEARNING_RATE, parameters=net.model.parameters())

    def step(gradients):
        for name, parameter in unidev.parameters(net).items():
            parameter.grad = gradients[name]
        optimizer.step()

    return step


def mxnet_adam(net):
    """A step of a Gluon ``Trainer``, which refuses gradients that ``backward`` has not marked."""
    from mxnet import gluon, npx

    npx.set_np()  # unidev's nets have NumPy's kind of arrays
    trainer = gluon.Trainer(
        net.model.collect_params(), "adam", {"learning_rate": LEARNING_RATE}, kvstore=None
    )

    def step(gradients):
        for name, parameter in unidev.parameters(net).items():
            parameter.grad[:] = gradients[name]
            parameter._fresh_grad = True
        trainer.step(1)  # the gradients are means already

    return step


def train(devices, epochs, seed):
    """Train on these devices, and return what was found."""
    unidev.seed(seed)
    net = unidev.DataParallel(make_net(), devices)
    adam = globals().get(f"{devices[0].backend}_adam")
    if adam is None:
        raise unidev.UnsupportedOperation("an optimizer", f"{devices[0].backend} has none")
    found = fit(net, devices, epochs, seed, adam(net))
    return {**found, **parts(net)}


if __name__ == "__main__":
    compare("own_optimizer", __doc__, train)
