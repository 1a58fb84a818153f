"""A ResNet-18 on one device, by data on two, and by layers on two; the same on every framework.

The textbook's ResNet-18 for images of 28 by 28, its sections 13.5 and 13.6, on drawn images:

    UNIDEV_BACKEND=torch UNIDEV_SIMULATE=2 python examples/resnet.py

- on one device: a batch of 256 at a learning rate of 0.1;
- by data on two (``unidev.DataParallel``): 512 at 0.2, half on each device;
- by layers on two (``unidev.spread``): the first layers on one device and the last on the other,
  which gives the bits of one device.

By default the batches are 16 and 32, and the rates smaller in proportion: ``--full`` takes those of
the textbook. On real GPUs it also times the work of two replicas at once against one after the
other. The backend is torch, tensorflow, paddle, mxnet or jax; NumPy has no gradients.
"""

import statistics
import time
from typing import NamedTuple

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
from train_digits import integer_from

import unidev
from unidev import nn
from unidev.bench import images
from unidev.system.wording import count_text

BATCH, FULL_BATCH, RATE = 16, 256, 0.1
"""The rate is that of a batch of 256, and grows and shrinks with the batch."""
STEPS, FULL_STEPS = 2, 20
WIDTH = 64
MEASURED = 5
"""The number of steps, at once and one after the other, that are timed on real GPUs."""


def convolution(inputs, outputs, size, stride=1):
    """A convolution that keeps the size of images, but for its stride, and batch norm."""
    padding = size // 2
    return (
        nn.conv2d(inputs, outputs, size, stride=stride, padding=padding),
        nn.batch_norm(outputs),
    )


def block(inputs, outputs, stride=1):
    """Two convolutions beside a shortcut, which is one of 1 by 1 where the shape changes."""
    shortcut = None
    if (inputs, stride) != (outputs, 1):
        shortcut = nn.conv2d(inputs, outputs, 1, stride=stride)
    return (
        nn.residual(
            *convolution(inputs, outputs, 3, stride), nn.relu(),
            *convolution(outputs, outputs, 3), shortcut=shortcut,
        ),
        nn.relu(),
    )  # fmt: skip


def resnet18(width=WIDTH):
    """The textbook's, for images of one channel: https://d2l.ai/chapter_computational-performance/multiple-gpus-concise.html."""
    layers = [*convolution(1, width, 3), nn.relu()]
    for stage in range(4):
        inputs, outputs = width << max(0, stage - 1), width << stage
        layers += block(inputs, outputs, stride=2 if stage else 1)
        layers += block(outputs, outputs)
    # 28 by 28 pixels are 4 by 4 after three strides of 2.
    return nn.sequential(*layers, nn.avg_pool2d(4), nn.flatten(), nn.dense(width << 3, 10))


class Way(NamedTuple):
    """A way to train."""

    name: str
    devices: list
    batch: int

    @property
    def rate(self):
        """The textbook's at its batches: 0.1 at 256, 0.2 at 512."""
        return RATE * self.batch / FULL_BATCH


def train(way, net, given, attempt):
    """Train in this way, until Ctrl-C at most; returns the losses and the seconds of a step."""
    gradients_of = unidev.value_and_grad(images.loss_of)
    pictures, labels = images.draw(way.batch * given.steps, given.seed)
    losses, seconds = [], []
    with attempt, counting(f"{way.name}: steps", given.steps) as count:
        for start in range(0, len(labels), way.batch):
            began = time.perf_counter()
            chosen = slice(start, start + way.batch)
            X = unidev.array(pictures[chosen], device=way.devices[0])
            y = unidev.array(labels[chosen], device=way.devices[-1])
            loss, gradients = gradients_of(net, X, y)
            unidev.sgd(net, gradients, lr=way.rate)
            losses.append(unidev.to_numpy(loss).item())
            seconds.append(time.perf_counter() - began)
            count(len(losses))
            if given.full and not start:
                steps = count_text(given.steps, "step")
                announce(f"{way.name}: {steps}", seconds[0] * given.steps)
    return losses, statistics.median(seconds[1:] or seconds or [0.0])


def report(way, losses, seconds):
    """Print what was found in one way, and return it for the JSON file."""
    device = way.devices[0]
    rate = ""
    if losses and not device.is_simulated:
        rate = f", {way.batch / seconds:.3g} examples a second"
    print(f"{way.name}, batches of {way.batch:,}: losses {listed(losses)}")
    print(f"{way.name}, a step: {time_text(device, seconds)}{rate}", flush=True)
    return {
        "devices": [str(each) for each in way.devices], "batch": way.batch, "losses": losses,
        "seconds": seconds_or_none(device, seconds),
    }  # fmt: skip


def weights_of(net):
    """All weights, in the order of the layers."""
    return [unidev.to_numpy(x) for x in unidev.parameters(net).values()]


def replicas_at_once(net, devices, size, seed):
    """Two replicas' gradients at once, and one after the other, in seconds."""
    pictures, labels = images.draw(size, seed)
    whole = unidev.array(pictures, device=devices[0]), unidev.array(labels, device=devices[0])
    shares = unidev.split_batch(whole, devices)
    gradients_of = unidev.value_and_grad(images.loss_of)

    def apart():
        for index, share in enumerate(shares):
            with net.replica(index) as model:
                gradients_of(model, *share)
            unidev.synchronize(devices[index])

    together = [seconds_of(gradients_of, net, *whole) for _ in range(MEASURED)]
    alone = [seconds_of(apart) for _ in range(MEASURED)]
    return statistics.median(together), statistics.median(alone)


def arguments():
    """Parse the command line."""
    full = f"batches of {FULL_BATCH} and {2 * FULL_BATCH}, {FULL_STEPS} steps"
    parser = options(__doc__, full, "one or two (default: the first two GPUs)")
    add = parser.add_argument
    add("--steps", type=integer_from(1), metavar="N",
        help=f"the number of steps (default: {STEPS}; with --full {FULL_STEPS})")  # fmt: skip
    add("--batch", type=integer_from(1), metavar="N",
        help=f"rows for each device (default: {BATCH}; with --full {FULL_BATCH})")  # fmt: skip
    add("--width", type=integer_from(1), default=WIDTH, metavar="N",
        help=f"channels of the first layer (default: {WIDTH}, the textbook's)")  # fmt: skip
    given = parser.parse_args()
    given.steps = given.steps or (FULL_STEPS if given.full else STEPS)
    given.batch = given.batch or (FULL_BATCH if given.full else BATCH)
    if len(given.on or ()) > 2:
        parser.error("argument --on: at most two devices")
    return given, chosen_devices(parser, given.on, unidev.try_all_gpus()[:2])


def made(given, make):
    """A net with the first weights, by ``make(net)``."""
    unidev.seed(given.seed)
    return make(resnet18(given.width))


def compare(net, other):
    """Print whether two nets have the same weights; returns it."""
    pairs = zip(weights_of(net), weights_of(other), strict=True)
    equal = all(np.array_equal(a, b) for a, b in pairs)
    print(f"by layers, the weights are those of one device to the bit: {equal}")
    return equal


def report_replicas(net, way, seed):
    """Print what two real devices gain by working at once; returns the seconds."""
    at_once, apart = replicas_at_once(net, way.devices, way.batch, seed)
    print(
        f"the gradients of two replicas at once take {at_once / apart:.3g} of the time of one "
        "after the other"
    )
    return {"at once": at_once, "one after the other": apart}


def main():
    """Train in the three ways, compare and report."""
    given, devices = arguments()
    check_gradients()
    attempt, runs, found = Attempt(), {}, {"equal": None, "replicas": None}

    def do(way, place):
        net = made(given, place)
        runs[way.name] = report(way, *train(way, net, given, attempt))
        return net

    one = Way("one device", devices[:1], given.batch)
    alone = do(one, lambda net: unidev.place(net, devices[0]))
    if len(devices) < 2:
        print(f"Only {devices[0]} is there; UNIDEV_SIMULATE=2 gives two simulated GPUs.")
    elif not attempt.is_stopped:
        layers = Way("by layers", devices, given.batch)
        spread = do(layers, lambda net: unidev.spread(net, devices))
        found["equal"] = None if attempt.is_stopped else compare(alone, spread)
        del alone, spread
    if len(devices) > 1 and not attempt.is_stopped:
        data = Way("by data", devices, 2 * given.batch)
        both = do(data, lambda net: unidev.DataParallel(net, devices))
        if not any(each.is_simulated for each in devices):
            with attempt:
                found["replicas"] = report_replicas(both, data, given.seed)
    say_what_is_missing(devices)
    write_json(given.json, {"backend": devices[0].backend, "runs": runs, **found})
    return attempt.is_stopped


if __name__ == "__main__":
    run("resnet", main)
