"""Train a net whose layers are on several GPUs, the same on every framework.

A LeNet learns to read scikit-learn's handwritten digits, first on one device; then its first layers
are on one device and its last ones on another:

    UNIDEV_BACKEND=torch UNIDEV_SIMULATE=2 python examples/model_parallel.py

``unidev.spread(net, devices)`` is the one line that differs. The devices take turns, so this is for
nets that one device cannot hold; no gradients are reduced, and the results are those of one device.
The backend is torch, tensorflow, paddle, mxnet or jax; NumPy has no gradients.
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


def train(devices, epochs, seed):
    """Train on these devices, and return what was found."""
    unidev.seed(seed)
    net = unidev.spread(make_net(), devices)
    for name, x in unidev.parameters(net).items():
        print(f"{name} is on {unidev.device_of(x)}")
    return fit(net, devices, epochs, seed, lambda gradients: unidev.sgd(net, gradients, lr=0.3))


def fit(net, devices, epochs, seed, step):
    """Train ``net``, with ``step(gradients)`` for each batch, and return what was found."""
    training, (unseen, answers) = load_data()
    gradients_of = unidev.value_and_grad(loss_of)
    losses, accuracies, seconds = [], [], []
    for epoch in range(1, epochs + 1):
        start, total = time.perf_counter(), 0.0
        for images, labels in batches(training, [seed, epoch]):
            # Labels go to the last device, where the net ends.
            X = unidev.array(images, device=devices[0])
            y = unidev.array(labels, device=devices[-1])
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
        sys.exit(f"model_parallel.py: {error}")
