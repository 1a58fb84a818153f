"""Train in one framework, save, and continue in another.

    python examples/checkpoint_across.py --backends torch paddle

One process trains a LeNet in the first framework and saves its parameters. A second process builds
the same net in the other framework, loads the parameters, compares its outputs with those of the
first process, and continues training. Without --backends, it uses two of the installed frameworks
(torch, tensorflow, paddle, mxnet, jax), or the only one twice. Needs scikit-learn.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import unidev
from unidev import nn

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


def loss_of(net, X, y):
    """The loss that training minimizes."""
    return nn.functional.softmax_cross_entropy(net(X), y)


def train(net, epochs, seed, first=1):
    """Train for some epochs, of which the first has this number."""
    images, labels = load_data()[0]
    gradients_of, device = unidev.value_and_grad(loss_of), unidev.device_of(net)
    for epoch in range(first, first + epochs):
        total = 0.0
        order = np.random.default_rng([seed, epoch]).permutation(len(images))
        for start in range(0, len(order), BATCH_SIZE):
            chosen = order[start : start + BATCH_SIZE]
            X = unidev.array(images[chosen], device=device)
            y = unidev.array(labels[chosen], device=device)
            loss, gradients = gradients_of(net, X, y)
            unidev.sgd(net, gradients, lr=LEARNING_RATE)
            total += unidev.to_numpy(loss).item() * len(chosen)
        print(f"epoch {epoch:2}: loss {total / len(images):.4f}", flush=True)


def report(net):
    """Print how well the net reads the test images, and return its outputs."""
    images, labels = load_data()[1]
    device = unidev.device_of(net)
    X, y = unidev.array(images, device=device), unidev.array(labels, device=device)
    with unidev.no_grad():
        outputs, loss = unidev.to_numpy(net(X)), unidev.to_numpy(loss_of(net, X, y)).item()
    accuracy = float((outputs.argmax(1) == labels).mean())
    print(f"{device.backend} on {device}: test loss {loss:.5f}, accuracy {accuracy:.4f}")
    return outputs


def train_and_save(folder, epochs, seed):
    """The first stage: a new net, trained and saved."""
    unidev.seed(seed)
    net = unidev.place(make_net(), unidev.try_gpu())
    train(net, epochs, seed)
    np.save(folder / "outputs.npy", report(net))
    unidev.save_parameters(net, folder / "digits.safetensors")
    print("saved in digits.safetensors")


def load_and_carry_on(folder, epochs, seed):
    """The second stage: a net with other weights loads the saved ones, and continues training."""
    net = make_net()
    unidev.load_parameters(net, folder / "digits.safetensors", device=unidev.try_gpu())
    difference = np.abs(report(net) - np.load(folder / "outputs.npy")).max()
    print(f"its outputs differ from the saved ones by {difference:.1e} at most")
    if difference > 1e-5:
        sys.exit("this is not the net that was saved")
    train(net, epochs, seed, first=epochs + 1)
    report(net)


def look(*_):
    """Before the first stage: an error if there is no such backend, or it has no gradients."""
    unidev.no_grad()


STAGES = {"look": look, "save": train_and_save, "load": load_and_carry_on}


def run_stage(stage, backend, given, folder):
    """Run one stage in its own process, since a process has one selected backend."""
    if stage != "look":
        print(f"-- {backend}", flush=True)
    options = ["--epochs", str(given.epochs), "--seed", str(given.seed)]
    done = subprocess.run(
        [sys.executable, __file__, "--stage", stage, "--folder", folder, *options],
        env={**os.environ, "UNIDEV_BACKEND": backend},
    )
    if done.returncode:
        sys.exit(done.returncode)


def installed_backends():
    """Two of the installed frameworks, or the only one twice."""
    names = ("torch", "tensorflow", "paddle", "mxnet", "jax")
    here = [name for name in names if name in unidev.list_backends() and find_spec(name)]
    if not here:
        sys.exit(f"this example needs one of {', '.join(names)}, with its unidev plugin")
    return [here[0], here[-1]]


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
    add("--backends", nargs=2, metavar=("FIRST", "SECOND"), help="the two frameworks")
    add("--epochs", type=positive, default=5, help="epochs in each framework (default: 5)")
    add("--seed", type=int, default=0, help="for the weights and the batches (default: 0)")
    add("--folder", type=Path, help="keeps the checkpoint (default: a temporary folder)")
    add("--stage", choices=STAGES, help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    """Run both stages, or the stage that this process was started for."""
    given = arguments()
    if find_spec("sklearn") is None:
        sys.exit("this example needs scikit-learn: pip install scikit-learn, or, in unidev's "
                 "repository, pip install '.[examples]'")  # fmt: skip
    if given.stage:
        STAGES[given.stage](given.folder, given.epochs, given.seed)
        return
    first, second = given.backends or installed_backends()
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if second != first:
            run_stage("look", second, given, folder)
        run_stage("save", first, given, folder)
        run_stage("load", second, given, folder)


if __name__ == "__main__":
    try:
        main()
    except unidev.UnidevError as error:
        sys.exit(f"checkpoint_across.py: {error}")
