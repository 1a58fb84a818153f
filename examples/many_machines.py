"""Train one model in several processes, on one machine or many, the same on every framework.

A small ResNet learns to read scikit-learn's handwritten digits. Each worker computes
with its share of each batch, and the gradients are averaged over all of them. Started by itself:

    UNIDEV_BACKEND=torch python examples/many_machines.py --workers 2

or by `unidev launch`, which starts the workers, with `--address` on the machines of a Ray cluster:

    UNIDEV_BACKEND=torch unidev launch --workers 2 examples/many_machines.py

In each worker, ``net = unidev.DataParallel(net)`` and ``group.shard(data)``, by which it reads its
own rows of each batch, are what differs from training in one process. The backend is torch,
tensorflow, paddle, mxnet or jax; NumPy has no gradients.
"""

import argparse
import json
import sys
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


def make_net(channels=16):
    """A ResNet for images of 8 by 8 pixels."""

    def block():
        return nn.residual(
            nn.conv2d(channels, channels, 3, padding=1),
            nn.batch_norm(channels),
            nn.relu(),
            nn.conv2d(channels, channels, 3, padding=1),
            nn.batch_norm(channels),
        )

    return nn.sequential(
        nn.conv2d(1, channels, 3, padding=1), nn.batch_norm(channels), nn.relu(),
        block(), nn.relu(), nn.avg_pool2d(2),
        block(), nn.relu(), nn.avg_pool2d(2),
        nn.flatten(), nn.dense(4 * channels, 10),
    )  # fmt: skip


def loss_of(net, X, y):
    """The loss that training minimizes."""
    return nn.functional.softmax_cross_entropy(net(X), y)


def train(epochs, seed):
    """Train in this worker, and return the losses and the test accuracies of all epochs."""
    group = unidev.group()
    unidev.seed(seed)
    net = unidev.DataParallel(make_net())
    training, testing = load_data()
    seen = group.shard(training, batch_size=BATCH_SIZE, shuffle=True, seed=seed, last="drop")
    unseen = group.shard(testing, batch_size=len(testing[1]))
    losses, accuracies = [], []
    for epoch in range(1, epochs + 1):
        seen.epoch = epoch
        total = rows = 0
        for X, y in unidev.prefetch(seen, group.device):
            loss, gradients = unidev.value_and_grad(loss_of)(net, X, y)
            unidev.sgd(net, gradients, lr=0.1)
            total += unidev.to_numpy(loss).item() * len(y)
            rows += len(y)
        losses.append(total / rows)
        accuracies.append(unidev.evaluate_accuracy(net, unidev.prefetch(unseen, group.device)))
        if group.rank == 0:
            print(
                f"{group.size} workers, epoch {epoch:2}: loss {losses[-1]:.4f}, test accuracy "
                f"{accuracies[-1]:.4f}",
                flush=True,
            )
    return {"workers": group.size, "losses": losses, "accuracies": accuracies}


def positive(text):
    """A positive integer, for the command line."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"not a positive integer: {text!r}")
    return int(text)


def arguments():
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--workers", type=positive, metavar="N",
        help="start this many; without it, this process is the worker that it is")  # fmt: skip
    add("--address", metavar="ADDRESS", help="with --workers: of a Ray cluster, auto or HOST:PORT")
    add("--epochs", type=positive, default=5, help="the number of epochs (default: 5)")
    add("--seed", type=int, default=0, help="for the weights and the batches (default: 0)")
    add("--json", type=Path, metavar="FILE", help="also write the numbers to this file")
    return parser.parse_args()


def main():
    """Train in this process, or in others."""
    given = arguments()
    if find_spec("sklearn") is None:
        sys.exit("this example needs scikit-learn: pip install scikit-learn, or, in unidev's "
                 "repository, pip install '.[examples]'")  # fmt: skip
    unidev.no_grad()  # before workers start: an error with NumPy, which has no gradients
    # Only one process writes: the others' machines need not have the folder.
    writes = given.json and (given.workers or unidev.group().rank == 0)
    if writes and (not given.json.parent.is_dir() or given.json.is_dir()):
        sys.exit(f"many_machines.py: --json: not a file in a folder that is there: '{given.json}'")
    if given.workers is None:
        found = train(given.epochs, given.seed)
    else:
        found, *_ = unidev.run(
            train, given.epochs, given.seed, workers=given.workers, address=given.address
        )
    if writes:
        given.json.write_text(json.dumps(found) + "\n")


if __name__ == "__main__":
    try:
        main()
    except unidev.UnidevError as error:
        sys.exit(f"many_machines.py: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
