"""How large should a batch be, and how many devices? The same on every framework.

The net of ``cpu_or_gpu.py`` learns drawn images, with batches of 16 to 1,024 on 1 to 4 devices:

    UNIDEV_BACKEND=torch UNIDEV_SIMULATE=2 python examples/batch_size.py

For each it finds the examples a second, the epochs until an accuracy, and the two times of a step:
computing gradients (t1) and exchanging them (t2). The two overlap, so the lecture asks that t1 be
larger than t2, by about a fifth; else the devices wait for each other. The exchange is of the same
size whatever the batch, so a larger batch helps, until it takes more epochs to learn as much. All
is drawn into batch_size.png. The backend is torch, tensorflow, paddle, mxnet or jax; NumPy has no
gradients.
"""

import argparse
import json
import statistics
import sys
import time
import timeit
from importlib.util import find_spec
from itertools import product
from pathlib import Path

import numpy as np

import unidev
from unidev import nn

BATCHES, FULL_BATCHES = (16, 128, 1024), (16, 32, 64, 128, 256, 512, 1024)
COUNTS, FULL_COUNTS = (1, 2), (1, 2, 3, 4)
DRAWN, FULL_DRAWN = 3200, 60_000
TESTED = 1000
EPOCHS, FULL_EPOCHS = 8, 20
RATE = 0.05 / 64
"""The learning rate for each row of a batch."""
MARGIN = 1.2
"""The lecture's: computing should take a fifth more than exchanging."""
MEASURED = 5


def make_net():
    """The net of ``cpu_or_gpu.py``."""
    return nn.sequential(
        nn.conv2d(1, 10, 5), nn.max_pool2d(2), nn.relu(),
        nn.conv2d(10, 20, 5), nn.max_pool2d(2), nn.relu(),
        nn.flatten(), nn.dense(320, 50), nn.relu(), nn.dense(50, 10),
    )  # fmt: skip


def draw(count, seed):
    """Images of 28 by 28 and their labels: a picture of noise for each class, and more noise."""
    generator = np.random.default_rng([seed, 2018])
    pictures = generator.standard_normal((10, 1, 28, 28), dtype="float32")
    labels = generator.integers(10, size=count)
    noise = generator.standard_normal((count, 1, 28, 28), dtype="float32")
    return (pictures[labels] + 2 * noise) / np.float32(5**0.5), labels.astype("int64")


def loss_of(net, X, y):
    """The loss that training minimizes."""
    return nn.functional.softmax_cross_entropy(net(X), y)


def train(net, batch, data, given, found):
    """Train until the accuracy is reached; what is found goes to ``found`` as it comes."""
    (pictures, labels), (tested, answers) = data
    gradients_of = unidev.value_and_grad(loss_of)
    losses, accuracies, seconds, first = found["losses"], found["accuracies"], [], net.devices[0]
    for epoch in range(given.epochs):
        order = np.random.default_rng([given.seed, epoch]).permutation(len(labels))
        # Without the last rows, which may be fewer than there are devices.
        for start in range(0, len(labels) - batch + 1, batch):
            began = time.perf_counter()
            chosen = order[start : start + batch]
            X = unidev.array(pictures[chosen], device=first)
            y = unidev.array(labels[chosen], device=first)
            loss, gradients = gradients_of(net, X, y)
            unidev.sgd(net, gradients, lr=RATE * batch)
            losses.append(unidev.to_numpy(loss).item())
            seconds.append(time.perf_counter() - began)
            if not first.is_simulated:  # else it would be the CPU's time
                found["seconds"] = statistics.median(seconds[1:] or seconds)
            if given.full and len(losses) == 3:
                whole = seconds[-1] * given.epochs * -(-len(labels) // batch)
                print(f"batches of {batch:,}: at most about {whole:.0f} s", flush=True)
        accuracies.append(
            unidev.evaluate_accuracy(net, [(unidev.array(tested, device=first), answers)])
        )
        if accuracies[-1] >= given.accuracy / 100:
            found["epochs"] = epoch + 1
            break


def parts(net, batch, seed):
    """The seconds of computing on the slowest device (t1), and of exchanging (t2)."""
    pictures, labels = draw(batch, seed)
    devices = net.devices
    whole = unidev.array(pictures, device=devices[0]), unidev.array(labels, device=devices[0])
    gradients_of = unidev.value_and_grad(loss_of)
    computing, gradients = [], []
    for index, share in enumerate(unidev.split_batch(whole, devices)):
        with net.replica(index) as model:
            gradients.append(gradients_of(model, *share)[1])
            computing.append(median_of(gradients_of, model, *share))
    exchanging = median_of(unidev.all_reduce, gradients, "mean") if len(devices) > 1 else 0.0
    return max(computing), exchanging


def median_of(call, *given):
    """The median of the seconds that ``call(*given)`` takes until all devices are done."""

    def waited():
        call(*given)
        unidev.synchronize()

    return statistics.median(timeit.repeat(waited, number=1, repeat=MEASURED))


def find(devices, batch, data, given, found):
    """Train and measure with this batch on these devices; printed, and added to ``found``."""
    unidev.seed(given.seed)
    net = unidev.DataParallel(make_net(), devices)
    losses, accuracies = found["losses"], found["accuracies"]
    name = f"{count_text(len(devices))}, batches of {batch:,}"
    try:
        train(net, batch, data, given, found)
    finally:
        print(f"{name}: losses {', '.join(f'{loss:.4g}' for loss in losses[:10])}")
    del losses[10:]
    in_time = f"{found['epochs']} epochs" if found["epochs"] else "not reached"
    print(f"{name}: accuracy {accuracies[-1]:.4f}, {given.accuracy} %: {in_time}", flush=True)
    if found["seconds"] is not None:
        found["t1"], found["t2"] = parts(net, batch, given.seed)
        print(f"{name}: {batch / found['seconds']:,.0f} examples a second; {rule(found)}")


def rule(found):
    """Whether computing takes long enough, by the lecture's rule."""
    computing, exchanging = (f"{1e3 * found[name]:.3g} ms" for name in ("t1", "t2"))
    if not found["t2"]:
        return f"computing (t1) {computing}, nothing to exchange"
    verdict = "enough" if found["t1"] >= MARGIN * found["t2"] else "too small a batch"
    return f"computing (t1) {computing}, exchanging (t2) {exchanging}: {verdict}"


def count_text(count):
    """``1 device``, ``2 devices``."""
    return f"{count} device{'' if count == 1 else 's'}"


def plot(runs, title, path):
    """Draw the epochs and the examples a second over the batch into a PNG file."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 3.5), layout="constrained")
    figure.suptitle(title)
    left, middle, right = figure.subplots(1, 3)
    for count in dict.fromkeys(each["devices"] for each in runs):
        own = [each for each in runs if each["devices"] == count]
        label = count_text(count)
        line(left, own, lambda each: each["epochs"], label)
        line(middle, own, lambda each: each["seconds"] and each["batch"] / each["seconds"], label)
        line(right, own, lambda each: each["t1"], f"computing (t1), {label}")
        line(right, own, lambda each: each["t2"] or None, f"exchanging (t2), {label}")
    left.set(ylabel="epochs until the accuracy")
    middle.set(ylabel="examples a second")
    right.set(ylabel="seconds of a step", yscale="log")
    for axes in (left, middle, right):
        axes.set(xlabel="batch", xscale="log")
        axes.grid(alpha=0.3)
        if axes.lines:
            axes.legend(fontsize="small")
        else:
            axes.text(0.5, 0.5, "not measured", transform=axes.transAxes, ha="center")
    figure.savefig(path, format="png", dpi=150)


def line(axes, runs, value_of, label):
    """A line through the values that there are."""
    points = [(each["batch"], value_of(each)) for each in runs if value_of(each) is not None]
    if points:
        axes.plot(*zip(*points, strict=True), marker="o", label=label)


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
    add("--full", action="store_true", help="the published size: "
        f"batches of 16 to 1,024 on up to 4 devices, {FULL_DRAWN:,} images")  # fmt: skip
    add("--batches", type=positive, nargs="+", metavar="N",
        help="the batches (default: 16 128 1024)")  # fmt: skip
    add("--devices", type=positive, nargs="+", metavar="N",
        help="the numbers of devices (default: 1 2, as far as they are there)")  # fmt: skip
    add("--accuracy", type=int, default=90,
        help="train until this many percent are right (default: 90)")  # fmt: skip
    add("--epochs", type=positive,
        help=f"at most so many epochs (default: {EPOCHS}; with --full {FULL_EPOCHS})")  # fmt: skip
    add("--drawn", type=positive,
        help=f"the images to draw (default: {DRAWN:,}; with --full {FULL_DRAWN:,})")  # fmt: skip
    add("--on", nargs="+", metavar="DEVICE", help="up to four (default: the first GPUs)")
    add("--seed", type=int, default=0, help="for the weights and the data (default: 0)")
    add("--plot", type=output_file, default="batch_size.png", metavar="FILE",
        help="the PNG file for the plots (default: batch_size.png)")  # fmt: skip
    add("--json", type=output_file, metavar="FILE", help="also write the numbers to this file")
    given = parser.parse_args()
    if find_spec("matplotlib") is None:
        sys.exit("this example needs matplotlib: pip install matplotlib, or, in unidev's "
                 "repository, pip install '.[examples]'")  # fmt: skip
    given.on = list(map(unidev.as_device, given.on or unidev.try_all_gpus()[:4]))
    counts = FULL_COUNTS if given.full else COUNTS
    given.devices = given.devices or [count for count in counts if count <= len(given.on)]
    if max(given.devices) > len(given.on):
        parser.error(
            f"argument --devices: {max(given.devices)} of them, and there are {len(given.on)}; "
            f"UNIDEV_SIMULATE={max(given.devices)} gives simulated ones"
        )
    given.batches = given.batches or (FULL_BATCHES if given.full else BATCHES)
    given.epochs = given.epochs or (FULL_EPOCHS if given.full else EPOCHS)
    given.drawn = given.drawn or (FULL_DRAWN if given.full else DRAWN)
    if max(given.batches) > given.drawn:
        parser.error(f"argument --batches: there are {given.drawn:,} images in all")
    return given


def main():
    """Train with each batch on each number of devices; Ctrl-C keeps the results so far."""
    given = arguments()
    unidev.no_grad()  # an error with NumPy, which has no gradients
    unidev.seed(given.seed)  # an error if it is negative
    pictures, labels = draw(given.drawn + TESTED, given.seed)
    data = (pictures[:-TESTED], labels[:-TESTED]), (pictures[-TESTED:], labels[-TESTED:])
    backend, runs, code = given.on[0].backend, [], 0
    try:
        for count, batch in product(given.devices, given.batches):
            runs.append({"devices": count, "batch": batch, "losses": [], "accuracies": [],
                         **dict.fromkeys(("epochs", "seconds", "t1", "t2"))})  # fmt: skip
            find(given.on[:count], batch, data, given, runs[-1])
    except KeyboardInterrupt:
        code = 130
    if given.json:
        given.json.write_text(json.dumps({"backend": backend, "runs": runs}) + "\n")
    plot(runs, f"{backend}, {given.drawn:,} images, until {given.accuracy} %", given.plot)
    print(f"epochs, examples a second and the two times are plotted in {given.plot}")
    if all(device.kind == "cpu" or device.is_simulated for device in given.on):
        print("No real GPU took part: this is the CPU's side alone.")
    return code


if __name__ == "__main__":
    try:
        sys.exit(main())
    except unidev.UnidevError as error:
        sys.exit(f"batch_size.py: {error}")
