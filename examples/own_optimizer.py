"""Train on several GPUs with the framework's own Adam, the same on every framework.

A LeNet learns to read scikit-learn's handwritten digits, first on one device and then on two:

    UNIDEV_BACKEND=torch UNIDEV_SIMULATE=2 python examples/own_optimizer.py

The optimizer is made for the model, and knows nothing of the devices: it makes its step on the
first one, and the replicas get the new weights. Up to rounding, they are those of one device. The
backend is torch, tensorflow, paddle, mxnet or jax; NumPy has no gradients.
"""

import argparse
import json
import statistics
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import unidev
from unidev import nn

BATCH_SIZE = 32
LEARNING_RATE = 0.002
EPSILON = 1e-8
"""The other frameworks' default; Keras's is 1e-7."""


def load_data():
    """Training and test data, each as images and labels in NumPy arrays."""
    from sklearn.datasets import load_digits  # pip install scikit-learn

    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(images))
    images = images[order].reshape(-1, 1, 8, 8).astype("float32")
    labels = labels[order].astype("int64")
    seen = images[:1437]  # the other 360 are for testing
    images = (images - seen.mean()) / seen.std()
    return (images[:1437], labels[:1437]), (images[1437:], labels[1437:])


def make_net():
    """A LeNet for images of 8 by 8 pixels."""
    return nn.sequential(
        nn.conv2d(1, 16, 5, padding=2), nn.tanh(), nn.avg_pool2d(2),
        nn.conv2d(16, 32, 3, padding=1), nn.tanh(), nn.avg_pool2d(2),
        nn.flatten(), nn.dense(128, 64), nn.tanh(), nn.dense(64, 10),
    )  # fmt: skip


def batches(data, seed):
    """Yield batches of images and labels, in an order drawn with ``seed``; each image once."""
    images, labels = data
    order = np.random.default_rng(seed).permutation(len(images))
    for start in range(0, len(order), BATCH_SIZE):
        chosen = order[start : start + BATCH_SIZE]
        yield images[chosen], labels[chosen]


def loss_of(net, X, y):
    """The loss that training minimizes."""
    return nn.functional.softmax_cross_entropy(net(X), y)


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
    return fit(net, devices, epochs, seed, adam_of(net.model, LEARNING_RATE))


def fit(net, devices, epochs, seed, step):
    """Train ``net``, with ``step(gradients)`` for each batch, and return what was found."""
    training, (unseen, answers) = load_data()
    gradients_of = unidev.value_and_grad(loss_of)
    losses, accuracies, seconds = [], [], []
    for epoch in range(1, epochs + 1):
        start, total = time.perf_counter(), 0.0
        for images, labels in batches(training, [seed, epoch]):
            X = unidev.array(images, device=devices[0])
            y = unidev.array(labels, device=devices[0])
            loss, gradients = gradients_of(net, X, y)
            step(gradients)
            total += unidev.to_numpy(loss).item() * len(labels)
        seconds.append(time.perf_counter() - start)
        losses.append(total / len(training[0]))
        accuracies.append(unidev.evaluate_accuracy(net, [(unidev.array(unseen), answers)]))
        print(
            f"devices: {len(devices)}, epoch {epoch:2}: loss {losses[-1]:.4f}, test accuracy "
            f"{accuracies[-1]:.4f}, {seconds[-1]:.2f} s",
            flush=True,
        )
    return {
        "devices": len(devices), "losses": losses, "accuracies": accuracies,
        "seconds": statistics.median(seconds),
    }  # fmt: skip


def positive(text):
    """A positive integer, for the command line."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"not a positive integer: {text!r}")
    return int(text)


def output_file(text):
    """A path in a folder that is there, for the command line."""
    if not Path(text).parent.is_dir() or Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"not a file in a folder that is there: {text!r}")
    return Path(text)


def main():
    """Train on one device and on several."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--devices", type=positive, default=2, help="compare one GPU with this many (default: 2)")
    add("--epochs", type=positive, default=5, help="the number of epochs (default: 5)")
    add("--seed", type=int, default=0, help="for the weights and the batches (default: 0)")
    add("--json", type=output_file, metavar="FILE", help="also write the numbers to this file")
    given = parser.parse_args()
    if find_spec("sklearn") is None:
        sys.exit("this example needs scikit-learn: pip install scikit-learn, or, in unidev's "
                 "repository, pip install '.[examples]'")  # fmt: skip
    gpus = unidev.try_all_gpus()
    if len(gpus) < given.devices:
        parser.error(
            f"--devices {given.devices} needs as many GPUs, and there are {unidev.num_gpus()}: set "
            f"UNIDEV_SIMULATE={given.devices} for simulated ones"
        )
    counts = dict.fromkeys((1, given.devices))
    runs = [train(gpus[:count], given.epochs, given.seed) for count in counts]
    if given.json:
        given.json.write_text(json.dumps({"backend": gpus[0].backend, "runs": runs}) + "\n")


if __name__ == "__main__":
    try:
        main()
    except unidev.UnidevError as error:
        sys.exit(f"own_optimizer.py: {error}")
