"""Train a convolutional net to read handwritten digits, the same on every framework.

A small LeNet learns the 1,797 images of 8 by 8 pixels that come with scikit-learn:

    UNIDEV_BACKEND=torch python examples/train_digits.py

The backend is torch, tensorflow, paddle, mxnet or jax; NumPy has no gradients. It trains on the
first GPU if there is one (with UNIDEV_SIMULATE=1, a simulated one), prints loss and accuracy after
each epoch, and draws both into digits.png. After the same seed, the nets of all frameworks start
from the same weights and see the same batches, each from the framework's own loader, read ahead;
JAX has none.
"""

import argparse
import json
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import unidev
from unidev import nn
from unidev.nn import functional as F

BATCH_SIZE = 32
LEARNING_RATE = 0.3


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


# -- the loader that each framework has of its own -------------------------------------------------


def torch_loader(images, labels, order):
    """A ``torch.utils.data.DataLoader``, which collates tensors."""
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    data = TensorDataset(torch.from_numpy(images), torch.from_numpy(labels))
    return DataLoader(data, batch_size=BATCH_SIZE, sampler=order.tolist())


def tensorflow_loader(images, labels, order):
    """A ``tf.data.Dataset``."""
    import tensorflow as tf

    return tf.data.Dataset.from_tensor_slices((images[order], labels[order])).batch(BATCH_SIZE)


def paddle_loader(images, labels, order):
    """A ``paddle.io.DataLoader``, which collates NumPy's arrays into tensors."""
    from paddle.io import DataLoader, Dataset

    class Digits(Dataset):
        def __len__(self):
            return len(order)

        def __getitem__(self, index):
            return images[order[index]], labels[order[index]]

    return DataLoader(Digits(), batch_size=BATCH_SIZE, return_list=True)


def mxnet_loader(images, labels, order):
    """A ``gluon.data.DataLoader``."""
    import mxnet as mx
    from mxnet.gluon.data import ArrayDataset, DataLoader

    mx.util.set_np()  # batches of mx.np, as unidev's tensors on MXNet
    return DataLoader(ArrayDataset(images[order], labels[order]), batch_size=BATCH_SIZE)


def numpy_loader(images, labels, order):
    """A generator: NumPy and JAX have no loader."""
    for start in range(0, len(order), BATCH_SIZE):
        chosen = order[start : start + BATCH_SIZE]
        yield images[chosen], labels[chosen]


LOADERS = {
    "torch": torch_loader,
    "tensorflow": tensorflow_loader,
    "paddle": paddle_loader,
    "mxnet": mxnet_loader,
}


def loader_of(backend, data, seed):
    """The framework's own loader of ``data``, in an order drawn with ``seed``; each image once."""
    images, labels = data
    order = np.random.default_rng(seed).permutation(len(images))
    return LOADERS.get(backend, numpy_loader)(images, labels, order)


# -- training --------------------------------------------------------------------------------------


def loss_of(net, X, y):
    """The loss that training minimizes."""
    return F.softmax_cross_entropy(net(X), y)


def train_epoch(net, data, seed, step_done):
    """Train once on each image, and return the mean loss."""
    device = unidev.device_of(net)
    loader = loader_of(device.backend, data, seed)
    total = 0.0
    for X, y in unidev.prefetch(loader, device):
        loss, gradients = unidev.value_and_grad(loss_of)(net, X, y)
        unidev.sgd(net, gradients, lr=LEARNING_RATE)
        total += unidev.to_numpy(loss).item() * len(y)
        step_done()
    return total / len(data[0])


def train(net, epochs, seed):
    """Train for some epochs, and return the loss and the test accuracy of each."""
    from rich.console import Console
    from rich.progress import Progress

    training, (images, labels) = load_data()
    tested = [(unidev.array(images, device=unidev.device_of(net)), labels)]
    losses, accuracies = [], []
    steps = epochs * -(-len(training[0]) // BATCH_SIZE)
    # Show the bar only on a terminal; a pipe gets only the lines.
    with Progress(disable=not Console().is_terminal) as progress:
        bar = progress.add_task("training", total=steps)
        for epoch in range(1, epochs + 1):
            loss = train_epoch(net, training, [seed, epoch], lambda: progress.advance(bar))
            accuracy = unidev.evaluate_accuracy(net, tested)
            print(f"epoch {epoch:2}: loss {loss:.4f}, test accuracy {accuracy:.4f}", flush=True)
            losses.append(loss)
            accuracies.append(accuracy)
    return losses, accuracies


def plot(losses, accuracies, title, path):
    """Draw loss and accuracy over the epochs into a PNG file."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(8, 3.5), layout="constrained")
    figure.suptitle(title)
    epochs = range(1, len(losses) + 1)
    curves = {"training loss": losses, "test accuracy": accuracies}
    for axes, (label, values) in zip(figure.subplots(1, 2), curves.items(), strict=True):
        axes.plot(epochs, values, marker="o")
        axes.set(xlabel="epoch", ylabel=label)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(alpha=0.3)
    figure.savefig(path, format="png", dpi=150)


def check_installed(**modules):
    """Exit with the command that installs the missing packages, if there are any."""
    missing = [package for module, package in modules.items() if find_spec(module) is None]
    if missing:
        sys.exit(
            f"this example needs {' and '.join(missing)}: pip install {' '.join(missing)}, or, in "
            "unidev's repository, pip install '.[examples]'"
        )


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


def arguments():
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--epochs", type=positive, default=15, help="the number of epochs (default: 15)")
    add("--seed", type=int, default=0, help="for the weights and the batches (default: 0)")
    add("--plot", type=output_file, default="digits.png", metavar="FILE",
        help="the PNG file for the curves (default: digits.png)")  # fmt: skip
    add("--json", type=output_file, metavar="FILE", help="also write the numbers to this file")
    return parser.parse_args()


def main():
    """Train, draw and report."""
    given = arguments()
    check_installed(sklearn="scikit-learn", matplotlib="matplotlib", rich="rich")
    start = time.perf_counter()
    unidev.seed(given.seed)
    net = unidev.place(make_net(), unidev.try_gpu())
    device = unidev.device_of(net)
    losses, accuracies = train(net, given.epochs, given.seed)
    seconds = time.perf_counter() - start
    if given.json:
        found = {
            "backend": device.backend,
            "device": str(device),
            "losses": losses,
            "accuracies": accuracies,
            "seconds": seconds,
        }
        given.json.write_text(json.dumps(found) + "\n")
    plot(losses, accuracies, f"{device.backend}, {device}", given.plot)
    print(f"test accuracy {accuracies[-1]:.4f} on {device} of {device.backend} in {seconds:.1f} s")
    print(f"loss and accuracy are plotted in {given.plot}")


if __name__ == "__main__":
    try:
        main()
    except unidev.UnidevError as error:
        sys.exit(f"train_digits.py: {error}")
