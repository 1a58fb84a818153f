"""Train on several GPUs by hand, the same on every framework: the textbook's section 13.5.

A LeNet whose parameters are tensors in a dict learns to read scikit-learn's handwritten digits,
first on one device and then on two:

    UNIDEV_BACKEND=torch UNIDEV_SIMULATE=2 python examples/multi_gpu_from_scratch.py

Each device has a replica of the parameters and gets its share of each batch. The gradients are
averaged over the devices, so the replicas stay equal, and the weights become those of one device.
The backend is torch, tensorflow, paddle, mxnet or jax; NumPy has no gradients.
"""

import argparse
import json
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import unidev
from unidev.nn import functional as F

BATCH_SIZE = 32
LEARNING_RATE = 0.3
RULE = 0.2
"""The lecture's: reducing should take about a fifth of the time that computing takes."""


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


def batches(data, seed):
    """Yield batches of images and labels, in an order drawn with ``seed``; each image once."""
    images, labels = data
    order = np.random.default_rng(seed).permutation(len(images))
    for start in range(0, len(order), BATCH_SIZE):
        chosen = order[start : start + BATCH_SIZE]
        yield images[chosen], labels[chosen]


def make_params():
    """The parameters of a LeNet for images of 8 by 8 pixels."""

    def scaled(*shape):
        return unidev.randn(shape) * float(np.sqrt(1 / np.prod(shape[1:])))

    return {
        "W1": scaled(16, 1, 3, 3), "b1": unidev.zeros(16),
        "W2": scaled(32, 16, 3, 3), "b2": unidev.zeros(32),
        "W3": scaled(64, 128), "b3": unidev.zeros(64),
        "W4": scaled(10, 64), "b4": unidev.zeros(10),
    }  # fmt: skip


def lenet(params, X):
    """The net: two convolutions with pooling, then two dense layers.

    All of it is smooth. With ReLU or max pooling, the last bit of a sum, which depends on how a
    batch is split, may decide which way a gradient goes.
    """
    h1 = F.avg_pool2d(F.tanh(F.conv2d(X, params["W1"], params["b1"], padding=1)), 2)
    h2 = F.avg_pool2d(F.tanh(F.conv2d(h1, params["W2"], params["b2"], padding=1)), 2)
    h3 = F.tanh(F.linear(F.flatten(h2), params["W3"], params["b3"]))
    return F.linear(h3, params["W4"], params["b4"])


def loss_of(params, X, y):
    """The loss that training minimizes."""
    return F.softmax_cross_entropy(lenet(params, X), y)


def train_batch(batch, replicas, devices, timer):
    """One step on all devices; returns the parameters, each on its device, and the mean loss."""
    shards = unidev.split_batch(batch, devices)
    rows = [int(y.shape[0]) for _, y in shards]
    with timer("computing"):
        found = [
            unidev.value_and_grad(loss_of)(params, X, y)
            for params, (X, y) in zip(replicas, shards, strict=True)
        ]
    losses, gradients = zip(*found, strict=True)
    with timer("reducing"):
        gradients = unidev.all_reduce(gradients, "mean", weights=rows)
    replicas = [
        unidev.sgd(params, gradient, lr=LEARNING_RATE)
        for params, gradient in zip(replicas, gradients, strict=True)
    ]
    values = [unidev.to_numpy(loss).item() for loss in losses]
    return replicas, float(np.average(values, weights=rows))


class Timer:
    """Adds up the seconds of its blocks, by name, once all devices are done."""

    def __init__(self):
        self.seconds = {"computing": 0.0, "reducing": 0.0}

    def __call__(self, name):
        self._name = name
        return self

    def __enter__(self):
        unidev.synchronize()
        self._start = time.perf_counter()

    def __exit__(self, *_):
        unidev.synchronize()
        self.seconds[self._name] += time.perf_counter() - self._start


def accuracy_of(params, data):
    """The fraction of images that the net reads correctly."""
    images, labels = data
    with unidev.no_grad():
        outputs = lenet(params, unidev.array(images, device=unidev.device_of(params)))
    return float((unidev.to_numpy(outputs).argmax(1) == labels).mean())


def train(devices, epochs, seed):
    """Train from the same start on these devices, and return what was found."""
    unidev.seed(seed)
    replicas = unidev.replicate(make_params(), devices)
    training, testing = load_data()
    timer, losses, accuracies, seconds = Timer(), [], [], []
    name = count_text(len(devices))
    for epoch in range(1, epochs + 1):
        start, total = time.perf_counter(), 0.0
        for images, labels in batches(training, [seed, epoch]):
            batch = unidev.array(images), unidev.array(labels)
            replicas, loss = train_batch(batch, replicas, devices, timer)
            total += loss * len(labels)
        seconds.append(time.perf_counter() - start)
        losses.append(total / len(training[0]))
        accuracies.append(accuracy_of(replicas[0], testing))
        print(
            f"{name}, epoch {epoch:2}: loss {losses[-1]:.4f}, test accuracy "
            f"{accuracies[-1]:.4f}, {seconds[-1]:.2f} s",
            flush=True,
        )
    weights = [{key: unidev.to_numpy(x) for key, x in replica.items()} for replica in replicas]
    return {
        "devices": len(devices), "losses": losses, "accuracies": accuracies,
        "seconds": float(np.median(seconds)), **timer.seconds, "weights": weights,
    }  # fmt: skip


def report(found):
    """Compare reducing with computing, by the lecture's rule."""
    print(
        f"{count_text(found['devices'])}: {found['seconds']:.2f} s an epoch, test accuracy "
        f"{found['accuracies'][-1]:.4f}"
    )
    if found["devices"] == 1:
        return  # there is nothing to reduce
    ratio = found["reducing"] / found["computing"]
    print(f"t1, reducing, is {ratio:.2g} of t2, computing")
    if ratio > RULE:
        # The gradients have the same size whatever the batch has; computing grows with it.
        print(
            f"t1 should be about {RULE} of t2: a batch of {round(BATCH_SIZE * ratio / RULE):,} "
            f"would reach that here, instead of {BATCH_SIZE}"
        )


def difference(runs):
    """The largest difference between the weights of the runs, and whether replicas are equal."""
    first, *others = (run["weights"] for run in runs)
    largest = max(
        (float(abs(first[0][key] - other[0][key]).max()) for other in others for key in first[0]),
        default=0.0,
    )
    equal = all(
        np.array_equal(replica[key], run["weights"][0][key])
        for run in runs for replica in run["weights"] for key in replica
    )  # fmt: skip
    return largest, equal


def plot(runs, title, path):
    """Draw accuracies, and the seconds of computing and reducing, into a PNG file."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.5), layout="constrained")
    figure.suptitle(title)
    left, right = figure.subplots(1, 2)
    for run in runs:
        epochs = range(1, len(run["accuracies"]) + 1)
        left.plot(epochs, run["accuracies"], marker="o", label=count_text(run["devices"]))
    left.set(xlabel="epoch", ylabel="test accuracy")
    left.legend()
    left.grid(alpha=0.3)
    names = [count_text(run["devices"]) for run in runs]
    computing, reducing = ([run[what] for run in runs] for what in ("computing", "reducing"))
    right.bar(names, computing, label="computing (t2)")
    right.bar(names, reducing, bottom=computing, label="reducing (t1)")
    right.set(ylabel="seconds, all epochs")
    right.legend()
    figure.savefig(path, format="png", dpi=150)


def count_text(count):
    """``1 device``, ``2 devices``."""
    return f"{count} device{'' if count == 1 else 's'}"


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
    add("--devices", type=positive, default=2, help="compare one GPU with this many (default: 2)")
    add("--epochs", type=positive, default=10, help="the number of epochs (default: 10)")
    add("--seed", type=int, default=0, help="for the weights and the batches (default: 0)")
    add("--plot", type=output_file, default="multi_gpu_from_scratch.png", metavar="FILE",
        help="the PNG file for the plots (default: multi_gpu_from_scratch.png)")  # fmt: skip
    add("--json", type=output_file, metavar="FILE", help="also write the numbers to this file")
    return parser.parse_args()


def main():
    """Train on one device and on several, draw and report."""
    given = arguments()
    check_installed(sklearn="scikit-learn", matplotlib="matplotlib")
    gpus = unidev.try_all_gpus()
    if unidev.num_gpus() < given.devices:
        sys.exit(
            f"multi_gpu_from_scratch.py: --devices {given.devices} needs as many GPUs, and there "
            f"are {unidev.num_gpus()}: set UNIDEV_SIMULATE={given.devices} for simulated ones"
        )
    counts = dict.fromkeys((1, given.devices))
    runs = [train(gpus[:count], given.epochs, given.seed) for count in counts]
    for run in runs:
        report(run)
    largest, equal = difference(runs)
    print(f"replicas equal to the bit: {equal}; weights of the runs within {largest:.1g}")
    if given.json:
        for run in runs:
            del run["weights"]
        found = {"backend": gpus[0].backend, "runs": runs, "equal": equal, "difference": largest}
        given.json.write_text(json.dumps(found) + "\n")
    plot(runs, f"{gpus[0].backend}, batches of {BATCH_SIZE}", given.plot)
    print(f"accuracies and times are plotted in {given.plot}")


if __name__ == "__main__":
    try:
        main()
    except unidev.UnidevError as error:
        sys.exit(f"multi_gpu_from_scratch.py: {error}")
