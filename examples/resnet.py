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

import argparse
import json
import statistics
import sys
import time
import timeit
from pathlib import Path

import numpy as np

import unidev
from unidev import nn

BATCH, FULL_BATCH, RATE = 16, 256, 0.1
"""The rate is that of a batch of 256, and grows and shrinks with the batch."""
STEPS, FULL_STEPS = 2, 20
WIDTH = 64
MEASURED = 5
"""The number of steps, at once and one after the other, that are timed on real GPUs."""


def draw(count, seed):
    """Images of 28 by 28 and their labels: a picture of noise for each class, and more noise."""
    generator = np.random.default_rng([seed, 2018])
    pictures = generator.standard_normal((10, 1, 28, 28), dtype="float32")
    labels = generator.integers(10, size=count)
    noise = generator.standard_normal((count, 1, 28, 28), dtype="float32")
    return (pictures[labels] + 2 * noise) / np.float32(5**0.5), labels.astype("int64")


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


def loss_of(net, X, y):
    """The loss that training minimizes."""
    return nn.functional.softmax_cross_entropy(net(X), y)


def train(net, devices, batch, given, found):
    """Train in one way; the losses and the seconds of a step go to ``found`` as they come."""
    gradients_of = unidev.value_and_grad(loss_of)
    pictures, labels = draw(batch * given.steps, given.seed)
    losses, seconds = found["losses"], []
    for start in range(0, len(labels), batch):
        began = time.perf_counter()
        chosen = slice(start, start + batch)
        # Labels go to the last device, where a net that is spread ends.
        X = unidev.array(pictures[chosen], device=devices[0])
        y = unidev.array(labels[chosen], device=devices[-1])
        loss, gradients = gradients_of(net, X, y)
        unidev.sgd(net, gradients, lr=RATE * batch / FULL_BATCH)
        losses.append(unidev.to_numpy(loss).item())
        seconds.append(time.perf_counter() - began)
        if not devices[0].is_simulated:  # else it would be the CPU's time
            found["seconds"] = statistics.median(seconds[1:] or seconds)
        if given.full and not start:
            print(f"{given.steps} steps: about {seconds[0] * given.steps:.0f} s", flush=True)


def report(name, found):
    """Print what was found in one way."""
    batch, seconds = found["batch"], found["seconds"]
    losses = ", ".join(f"{loss:.4g}" for loss in found["losses"][:10])
    print(f"{name}, batches of {batch:,}: losses {losses}")
    step = "no time, simulated"
    if seconds:
        step = f"{seconds:.3g} s, {batch / seconds:.3g} examples a second"
    print(f"{name}, a step: {step}", flush=True)


def weights_of(net):
    """All weights, in the order of the layers."""
    return [unidev.to_numpy(x) for x in unidev.parameters(net).values()]


def replicas_at_once(net, devices, size, seed):
    """The seconds of two replicas' gradients at once, and one after the other; printed."""
    pictures, labels = draw(size, seed)
    whole = unidev.array(pictures, device=devices[0]), unidev.array(labels, device=devices[0])
    shares = unidev.split_batch(whole, devices)
    gradients_of = unidev.value_and_grad(loss_of)

    def together():
        gradients_of(net, *whole)
        unidev.synchronize()

    def apart():
        for index, share in enumerate(shares):
            with net.replica(index) as model:
                gradients_of(model, *share)
            unidev.synchronize(devices[index])

    at_once, alone = (
        statistics.median(timeit.repeat(call, number=1, repeat=MEASURED))
        for call in (together, apart)
    )
    print(
        f"the gradients of two replicas at once take {at_once / alone:.3g} of the time of one "
        "after the other"
    )
    return {"at once": at_once, "one after the other": alone}


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
        f"batches of {FULL_BATCH} and {2 * FULL_BATCH}, {FULL_STEPS} steps")  # fmt: skip
    add("--steps", type=positive,
        help=f"the number of steps (default: {STEPS}; with --full {FULL_STEPS})")  # fmt: skip
    add("--batch", type=positive,
        help=f"rows for each device (default: {BATCH}; with --full {FULL_BATCH})")  # fmt: skip
    add("--width", type=positive, default=WIDTH,
        help=f"channels of the first layer (default: {WIDTH}, the textbook's)")  # fmt: skip
    add("--on", nargs="+", metavar="DEVICE", help="one or two (default: the first two GPUs)")
    add("--seed", type=int, default=0, help="for the weights and the data (default: 0)")
    add("--json", type=output_file, metavar="FILE", help="also write the numbers to this file")
    given = parser.parse_args()
    given.steps = given.steps or (FULL_STEPS if given.full else STEPS)
    given.batch = given.batch or (FULL_BATCH if given.full else BATCH)
    return given


def train_in_each_way(devices, given, found):
    """Train on one device, by layers and by data; compare the weights, and time the replicas."""
    runs = found["runs"]

    def do(name, devices, batch, place):
        unidev.seed(given.seed)
        net = place(resnet18(given.width))
        runs[name] = {
            "devices": list(map(str, devices)), "batch": batch, "losses": [], "seconds": None,
        }  # fmt: skip
        try:
            train(net, devices, batch, given, runs[name])
        finally:
            report(name, runs[name])
        return net

    first = devices[:1]
    alone = do("one device", first, given.batch, lambda net: unidev.place(net, *first))
    if len(devices) < 2:
        print(f"Only {devices[0]} is there; UNIDEV_SIMULATE=2 gives two simulated GPUs.")
        return
    spread = do("by layers", devices, given.batch, lambda net: unidev.spread(net, devices))
    pairs = zip(weights_of(alone), weights_of(spread), strict=True)
    found["equal"] = all(np.array_equal(a, b) for a, b in pairs)
    print(f"by layers, the weights are those of one device to the bit: {found['equal']}")
    del alone, spread
    both = do("by data", devices, 2 * given.batch, lambda net: unidev.DataParallel(net, devices))
    if not any(each.is_simulated for each in devices):
        found["replicas"] = replicas_at_once(both, devices, 2 * given.batch, given.seed)


def main():
    """Train in the three ways, compare and report; Ctrl-C keeps the results so far."""
    given = arguments()
    devices = list(map(unidev.as_device, given.on or unidev.try_all_gpus()))[:2]
    unidev.no_grad()  # an error with NumPy, which has no gradients
    found = {"backend": devices[0].backend, "runs": {}, "equal": None, "replicas": None}
    code = 0
    try:
        train_in_each_way(devices, given, found)
    except KeyboardInterrupt:
        code = 130
    if all(device.kind == "cpu" or device.is_simulated for device in devices):
        print("No real GPU took part: this is the CPU's side alone.")
    if given.json:
        given.json.write_text(json.dumps(found) + "\n")
    return code


if __name__ == "__main__":
    try:
        sys.exit(main())
    except unidev.UnidevError as error:
        sys.exit(f"resnet.py: {error}")
