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

import statistics
import time
from itertools import product

import numpy as np
from multi_gpu import seconds_of
from questions import (
    Attempt,
    announce,
    check_gradients,
    chosen_devices,
    counting,
    listed,
    options,
    run,
    say_what_is_missing,
    seconds_or_none,
    time_text,
    write_json,
)
from train_digits import check_installed, integer_from, new_file

import unidev
from unidev.bench import images
from unidev.system.wording import count_text, number_text

BATCHES, FULL_BATCHES = (16, 128, 1024), (16, 32, 64, 128, 256, 512, 1024)
COUNTS, FULL_COUNTS = (1, 2), (1, 2, 3, 4)
DRAWN, FULL_DRAWN = 3200, images.IMAGES
TESTED = 1000
EPOCHS, FULL_EPOCHS = 8, 20
RATE = 0.05 / 64
"""The learning rate for each row of a batch."""
MARGIN = 1.2
"""The lecture's: computing should take a fifth more than exchanging."""
MEASURED = 5


def train(net, batch, data, given, attempt):
    """Train until the accuracy is reached; returns losses, accuracies and seconds of the steps."""
    (pictures, labels), (tested, answers) = data
    gradients_of = unidev.value_and_grad(images.loss_of)
    losses, accuracies, seconds, devices = [], [], [], net.devices
    name = f"{count_text(len(devices), 'device')}, batches of {batch:,}"
    steps = -(-len(labels) // batch)
    with attempt, counting(f"{name}: steps", steps * given.epochs) as count:
        for epoch in range(given.epochs):
            order = np.random.default_rng([given.seed, epoch]).permutation(len(labels))
            # Without the last rows, which may be fewer than there are devices.
            for start in range(0, len(labels) - batch + 1, batch):
                began = time.perf_counter()
                chosen = order[start : start + batch]
                X = unidev.array(pictures[chosen], device=devices[0])
                y = unidev.array(labels[chosen], device=devices[0])
                loss, gradients = gradients_of(net, X, y)
                unidev.sgd(net, gradients, lr=RATE * batch)
                losses.append(unidev.to_numpy(loss).item())
                seconds.append(time.perf_counter() - began)
                count(len(losses))
                if given.full and len(losses) == 3:
                    announce(f"{name}, at most", seconds[-1] * steps * given.epochs)
            X = unidev.array(tested, device=devices[0])
            accuracies.append(unidev.evaluate_accuracy(net, [(X, answers)]))
            if accuracies[-1] >= given.accuracy / 100:
                break
    return losses, accuracies, statistics.median(seconds[1:] or seconds or [0.0])


def parts(net, batch, seed):
    """The seconds of computing on the slowest device (t1), and of exchanging (t2)."""
    pictures, labels = images.draw(batch, seed)
    devices = net.devices
    whole = unidev.array(pictures, device=devices[0]), unidev.array(labels, device=devices[0])
    shares = unidev.split_batch(whole, devices)
    gradients_of = unidev.value_and_grad(images.loss_of)
    computing, gradients = [], []
    for index, share in enumerate(shares):
        with net.replica(index) as model:
            gradients.append(gradients_of(model, *share)[1])
            times = [seconds_of(gradients_of, model, *share) for _ in range(MEASURED)]
        computing.append(statistics.median(times))
    if len(devices) == 1:
        return computing[0], 0.0
    exchanging = [seconds_of(unidev.all_reduce, gradients, "mean") for _ in range(MEASURED)]
    return max(computing), statistics.median(exchanging)


def find(devices, batch, data, given, attempt):
    """Train and measure with this batch on these devices; prints and returns what was found."""
    unidev.seed(given.seed)
    net = unidev.DataParallel(images.make_net(), devices)
    losses, accuracies, seconds = train(net, batch, data, given, attempt)
    reached = bool(accuracies) and accuracies[-1] >= given.accuracy / 100
    found = {
        "devices": len(devices), "batch": batch, "losses": losses[:10], "accuracies": accuracies,
        "epochs": len(accuracies) if reached else None,
        "seconds": seconds_or_none(devices[0], seconds), "t1": None, "t2": None,
    }  # fmt: skip
    name = f"{count_text(len(devices), 'device')}, batches of {batch:,}"
    print(f"{name}: losses {listed(losses)}")
    if accuracies:
        in_time = count_text(len(accuracies), "epoch") if reached else "not reached"
        print(f"{name}: accuracy {accuracies[-1]:.4f}, {given.accuracy} %: {in_time}")
    if devices[0].is_simulated or attempt.is_stopped:
        print(f"{name}: a step: {time_text(devices[0], seconds)}", flush=True)
        return found
    found["t1"], found["t2"] = parts(net, batch, given.seed)
    print(f"{name}: {number_text(batch / seconds)} examples a second; {rule(found, devices)}")
    return found


def rule(found, devices):
    """Whether computing takes long enough, by the lecture's rule."""
    computing, exchanging = (time_text(devices[0], found[name]) for name in ("t1", "t2"))
    if len(devices) == 1:
        return f"computing (t1) {computing}, nothing to exchange"
    verdict = "enough" if found["t1"] >= MARGIN * found["t2"] else "too small a batch"
    return f"computing (t1) {computing}, exchanging (t2) {exchanging}: {verdict}"


def plot(runs, title, path):
    """Draw the epochs and the examples a second over the batch into a PNG file."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 3.5), layout="constrained")
    figure.suptitle(title)
    left, middle, right = figure.subplots(1, 3)
    for count in dict.fromkeys(each["devices"] for each in runs):
        own = [each for each in runs if each["devices"] == count]
        label = count_text(count, "device")
        draw(left, own, lambda each: each["epochs"], label)
        draw(middle, own, lambda each: each["seconds"] and each["batch"] / each["seconds"], label)
        draw(right, own, lambda each: each["t1"], f"computing (t1), {label}")
        draw(right, own, lambda each: each["t2"] or None, f"exchanging (t2), {label}")
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


def draw(axes, runs, value_of, label):
    """A line through the values that there are."""
    points = [(each["batch"], value_of(each)) for each in runs if value_of(each) is not None]
    if points:
        axes.plot(*zip(*points, strict=True), marker="o", label=label)


def percent(text):
    """A type for argparse: an accuracy from 1 to 100."""
    return integer_from(1)(text if text.isdecimal() and int(text) <= 100 else "0")


def arguments():
    """Parse the command line."""
    full = f"batches of 16 to 1,024 on up to 4 devices, {FULL_DRAWN:,} images"
    parser = options(__doc__, full, "up to four (default: the first GPUs)")
    add = parser.add_argument
    add("--batches", type=integer_from(1), nargs="+", metavar="N",
        help="the batches (default: 16 128 1024)")  # fmt: skip
    add("--devices", type=integer_from(1), nargs="+", metavar="N",
        help="the numbers of devices (default: 1 2, as far as they are there)")  # fmt: skip
    add("--accuracy", type=percent, default=90, metavar="N",
        help="train until this many percent are right (default: 90)")  # fmt: skip
    add("--epochs", type=integer_from(1), metavar="N",
        help=f"at most so many epochs (default: {EPOCHS}; with --full {FULL_EPOCHS})")  # fmt: skip
    add("--drawn", type=integer_from(1), metavar="N",
        help=f"the images to draw (default: {DRAWN:,}; with --full {FULL_DRAWN:,})")  # fmt: skip
    add("--plot", type=new_file, default="batch_size.png", metavar="FILE",
        help="the PNG file for the plots (default: batch_size.png)")  # fmt: skip
    given = parser.parse_args()
    devices = chosen_devices(parser, given.on, unidev.try_all_gpus()[:4])
    counts = FULL_COUNTS if given.full else COUNTS
    there = [count for count in counts if count <= len(devices)]
    given.devices = given.devices or there
    if max(given.devices) > len(devices):
        parser.error(
            f"argument --devices: {max(given.devices)} of them, and there are {len(devices)}; "
            f"UNIDEV_SIMULATE={max(given.devices)} gives simulated ones"
        )
    given.batches = given.batches or (FULL_BATCHES if given.full else BATCHES)
    given.epochs = given.epochs or (FULL_EPOCHS if given.full else EPOCHS)
    given.drawn = given.drawn or (FULL_DRAWN if given.full else DRAWN)
    if min(given.batches) < max(given.devices):
        parser.error("argument --batches: a batch has a row for each device at least")
    if max(given.batches) > given.drawn:
        parser.error(f"argument --batches: there are {given.drawn:,} images in all")
    return given, devices


def main():
    """Train with each batch on each number of devices, draw and report."""
    given, devices = arguments()
    check_gradients()
    check_installed(matplotlib="matplotlib")
    pictures, labels = images.draw(given.drawn + TESTED, given.seed)
    data = (pictures[:-TESTED], labels[:-TESTED]), (pictures[-TESTED:], labels[-TESTED:])
    attempt, runs = Attempt(), []
    for count, batch in product(given.devices, given.batches):
        if attempt.is_stopped:
            break
        with attempt:
            runs.append(find(devices[:count], batch, data, given, attempt))
    backend = devices[0].backend
    if runs:
        plot(runs, f"{backend}, {given.drawn:,} images, until {given.accuracy} %", given.plot)
        print(f"epochs, examples a second and the two times are plotted in {given.plot}")
    say_what_is_missing(devices)
    write_json(given.json, {"backend": backend, "runs": runs})
    return attempt.is_stopped


if __name__ == "__main__":
    run("batch_size", main)
