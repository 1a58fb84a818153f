"""Train on several GPUs in a few lines, the same on every framework: the textbook's section 13.6.

A small ResNet with batch normalisation learns to read scikit-learn's handwritten digits, first on
one device and then on two:

    UNIDEV_BACKEND=torch UNIDEV_SIMULATE=2 python examples/multi_gpu.py

``net = unidev.DataParallel(net, devices)`` is the one line that differs from training on one
device. Batch normalisation normalises each device's share by itself, so the weights are not those
of one device, but as good. The backend is torch, tensorflow, paddle, mxnet or jax; NumPy has no
gradients.
"""

import argparse
import json
import statistics
import sys
import time

from multi_gpu_from_scratch import count_text, plot, report
from train_digits import (
    BATCH_SIZE,
    batches,
    check_installed,
    integer_from,
    load_data,
    loss_of,
    new_file,
)  # fmt: skip

import unidev
from unidev import nn

MEASURED = 10
"""The number of steps that are timed, by parts, after the training."""


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


def train(devices, epochs, seed):
    """Train on these devices, and return what was found."""
    unidev.seed(seed)
    net = unidev.DataParallel(make_net(), devices)
    found = fit(net, devices, epochs, seed, lambda gradients: unidev.sgd(net, gradients, lr=0.1))
    return {**found, **parts(net)}


def fit(net, devices, epochs, seed, step):
    """Train ``net``, with ``step(gradients)`` for each batch; returns losses, accuracies, times."""
    from rich.console import Console
    from rich.progress import Progress

    training, testing = load_data()
    losses, accuracies, seconds = [], [], []
    name = count_text(len(devices))
    with Progress(disable=not Console().is_terminal) as progress:
        bar = progress.add_task(name, total=epochs * -(-len(training[0]) // BATCH_SIZE))
        for epoch in range(1, epochs + 1):
            start, total = time.perf_counter(), 0.0
            for images, labels in batches(training, [seed, epoch]):
                batch = on(devices, images, labels)
                loss, gradients = unidev.value_and_grad(loss_of)(net, *batch)
                step(gradients)
                total += unidev.to_numpy(loss).item() * len(labels)
                progress.advance(bar)
            seconds.append(time.perf_counter() - start)
            losses.append(total / len(training[0]))
            images, labels = testing
            accuracies.append(unidev.evaluate_accuracy(net, [(unidev.array(images), labels)]))
            print(
                f"{name}, epoch {epoch:2}: loss {losses[-1]:.4f}, test accuracy "
                f"{accuracies[-1]:.4f}, {seconds[-1]:.2f} s",
                flush=True,
            )
    return {
        "devices": len(devices), "losses": losses, "accuracies": accuracies,
        "seconds": statistics.median(seconds),
    }  # fmt: skip


def on(devices, images, labels):
    """Images on the first device, and labels on the last, where a net that is spread ends.

    A ``DataParallel`` splits both, wherever they are.
    """
    return unidev.array(images, device=devices[0]), unidev.array(labels, device=devices[-1])


def parts(net):
    """The seconds of a step's parts: computing, and all that several devices add to it."""
    (images, labels), _ = load_data()
    whole = on(net.devices, images[:BATCH_SIZE], labels[:BATCH_SIZE])
    shares = unidev.split_batch(whole, net.devices)
    of = unidev.value_and_grad(loss_of)
    steps, alone = [], []
    for _ in range(MEASURED):
        steps.append(seconds_of(of, net, *whole))
        alone.append(0.0)
        for index, share in enumerate(shares):
            with net.replica(index) as model:
                alone[-1] += seconds_of(of, model, *share)
    computing = statistics.median(alone)
    return {"computing": computing, "reducing": max(0.0, statistics.median(steps) - computing)}


def seconds_of(call, *given):
    """The seconds that ``call(*given)`` takes until all devices are done."""
    unidev.synchronize()
    start = time.perf_counter()
    call(*given)
    unidev.synchronize()
    return time.perf_counter() - start


def arguments(program, description):
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--devices", type=integer_from(1), default=2, metavar="N",
        help="compare one GPU with this many (default: 2)")  # fmt: skip
    add("--epochs", type=integer_from(1), default=5, metavar="N",
        help="the number of epochs (default: 5)")  # fmt: skip
    add("--seed", type=integer_from(0), default=0, metavar="N",
        help="for the weights and the batches (default: 0)")  # fmt: skip
    add("--plot", type=new_file, default=f"{program}.png", metavar="FILE",
        help=f"the PNG file for the plots (default: {program}.png)")  # fmt: skip
    add("--json", type=new_file, metavar="FILE", help="also write the numbers to this file")
    return parser.parse_args()


def compare(program, description, train):
    """``train(devices, epochs, seed)`` on one device and on several; draw and report."""
    given = arguments(program, description)
    check_installed(sklearn="scikit-learn", matplotlib="matplotlib", rich="rich")
    try:
        gpus = unidev.try_all_gpus()
        if len(gpus) < given.devices:
            sys.exit(
                f"{program}.py: --devices {given.devices} needs as many GPUs, and there are "
                f"{unidev.num_gpus()}: set UNIDEV_SIMULATE={given.devices} for simulated ones"
            )
        counts = dict.fromkeys((1, given.devices))
        runs = [train(gpus[:count], given.epochs, given.seed) for count in counts]
    except (unidev.UnsupportedOperation, unidev.BackendError, unidev.SimulationError) as error:
        sys.exit(f"{program}.py: {error}")
    for run in runs:
        report(run)
    plot(runs, f"{gpus[0].backend}, batches of {BATCH_SIZE}", given.plot)
    print(f"accuracies and times are plotted in {given.plot}")
    if given.json:
        given.json.write_text(json.dumps({"backend": gpus[0].backend, "runs": runs}) + "\n")


if __name__ == "__main__":
    compare("multi_gpu", __doc__, train)
