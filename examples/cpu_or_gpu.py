"""How much faster is a GPU at images, and at products of matrices? The same on every framework.

PyTorch's MNIST example as of 2018 (two convolutions of 10 and 20 channels, two dense layers, batch
64; dropout off, since each framework draws its own), an epoch on each device in turn:

    UNIDEV_BACKEND=torch python examples/cpu_or_gpu.py

The images are drawn, or read from files in the IDX format, as MNIST's are:
``--idx train-images-idx3-ubyte.gz train-labels-idx1-ubyte.gz``. Then products of 200 by 200 in
three ways: by NumPy, on the device, and moved there and back each time. ``docs/questions.md`` has
the published figures. The backend is torch, tensorflow, paddle, mxnet or jax; NumPy has no
gradients.
"""

import argparse
import gzip
import json
import statistics
import sys
import time
import timeit
from pathlib import Path

import numpy as np

import unidev
from unidev import nn

BATCH, LEARNING_RATE, MOMENTUM = 64, 0.01, 0.5
IMAGES, DRAWN, FULL_EPOCHS = 60_000, 6400, 10
CLASSES, PIXELS = 10, 28
MEAN, DEVIATION = 0.1307, 0.3081
"""Those of MNIST's pixels, from 0 to 1."""
ROWS = 200


def make_net():
    """Two convolutions and two dense layers.

    https://github.com/pytorch/examples/blob/0.4/mnist/main.py
    """
    return nn.sequential(
        nn.conv2d(1, 10, 5), nn.max_pool2d(2), nn.relu(),
        nn.conv2d(10, 20, 5), nn.max_pool2d(2), nn.relu(),
        nn.flatten(), nn.dense(320, 50), nn.relu(), nn.dense(50, CLASSES),
    )  # fmt: skip


def draw(count, seed):
    """Images of 28 by 28 and their labels: a picture of noise for each class, and more noise."""
    generator = np.random.default_rng([seed, 2018])
    pictures = generator.standard_normal((CLASSES, 1, PIXELS, PIXELS), dtype="float32")
    labels = generator.integers(CLASSES, size=count)
    noise = generator.standard_normal((count, 1, PIXELS, PIXELS), dtype="float32")
    return (pictures[labels] + 2 * noise) / np.float32(5**0.5), labels.astype("int64")


def read_idx(path):
    """An array of bytes from a file in the IDX format: https://yann.lecun.com/exdb/mnist/."""
    content = (gzip.open if path.endswith(".gz") else open)(path, "rb")
    with content as file:
        data = file.read()
    if len(data) < 4 or data[:3] != b"\0\0\x08":
        raise unidev.InvalidDataError(f"{path} is not an IDX file of bytes")
    sizes = np.frombuffer(data, ">i4", data[3], offset=4)
    values = np.frombuffer(data, "uint8", offset=4 + 4 * data[3])
    if values.size != sizes.prod():
        raise unidev.InvalidDataError(
            f"{path} has {values.size:,} bytes, and its header says {sizes.prod():,}"
        )
    return values.reshape(sizes)


def read_images(image_path, label_path):
    """Images and labels of two IDX files, normalised as PyTorch's example does."""
    pictures, labels = read_idx(image_path), read_idx(label_path)
    if pictures.ndim != 3 or pictures.shape[1:] != (PIXELS, PIXELS):
        raise unidev.InvalidDataError(
            f"{image_path} has no images of 28 by 28: its shape is {pictures.shape}"
        )
    if labels.shape != pictures.shape[:1] or labels.max(initial=0) >= CLASSES:
        raise unidev.InvalidDataError(f"{label_path} has no labels from 0 to 9, one for each image")
    scaled = (pictures[:, None].astype("float32") / 255 - MEAN) / DEVIATION
    return scaled.astype("float32"), labels.astype("int64")


def loss_of(net, X, y):
    """The loss that training minimizes."""
    return nn.functional.softmax_cross_entropy(net(X), y)


def stepper(net):
    """``step(X, y)`` of SGD with momentum, as PyTorch defines it; it returns the loss."""
    gradients_of = unidev.value_and_grad(loss_of)
    velocity = {}

    def step(X, y):
        loss, gradients = gradients_of(net, X, y)
        for name, gradient in gradients.items():
            old = velocity.get(name)
            velocity[name] = gradient if old is None else old * MOMENTUM + gradient
        unidev.sgd(net, velocity, lr=LEARNING_RATE)
        return unidev.to_numpy(loss).item()

    return step


def train(device, given, data, found):
    """Train for the epochs; the losses and the seconds of a step go to ``found`` as they come."""
    unidev.seed(given.seed)
    pictures, labels = data
    losses, began = found["losses"], 0.0
    total = given.epochs * -(-len(labels) // BATCH)
    with device:
        step = stepper(make_net())
        for epoch in range(given.epochs):
            order = np.random.default_rng([given.seed, epoch]).permutation(len(labels))
            for start in range(0, len(labels), BATCH):
                chosen = order[start : start + BATCH]
                X, y = unidev.array(pictures[chosen]), unidev.array(labels[chosen])
                losses.append(step(X, y))
                done = len(losses) - 1  # the first compiles and allocates, and is not counted
                if not done:
                    began = time.perf_counter()
                elif not device.is_simulated:  # else it would be the CPU's time
                    found["seconds a step"] = (time.perf_counter() - began) / done
                if given.full and done == 10:
                    each = (time.perf_counter() - began) / done
                    print(f"{total:,} steps on {device}: about {each * total:.0f} s", flush=True)


def time_text(seconds):
    """The seconds; None if the device is simulated, since they would be the CPU's."""
    return "no time, simulated" if seconds is None else f"{seconds:.3g} s"


def report(found, epoch_steps):
    """Print what was found on one device."""
    device, losses, each = found["device"], found["losses"], found["seconds a step"]
    print(f"{device}: losses {', '.join(f'{loss:.4g}' for loss in losses[:10])}")
    if losses:
        # An epoch is that of the published size, whatever was run.
        epoch_s = each and each * -(-IMAGES // BATCH)
        print(
            f"{device}: {len(losses):,} steps, each: {time_text(each)}; an epoch of {IMAGES:,} "
            f"images at that rate: {time_text(epoch_s)}; mean loss of the last "
            f"{min(epoch_steps, len(losses)):,} steps {np.mean(losses[-epoch_steps:]):.4f}"
        )


def compare(runs):
    """Print the ratio of the epochs, if two devices have times."""
    timed = [run for run in runs if run["seconds a step"]]
    if len(timed) > 1:
        first, second = timed[:2]
        ratio = first["seconds a step"] / second["seconds a step"]
        print(f"{second['device']} is {ratio:.3g} times as fast as {first['device']}")
    print("published, ten epochs: 153 s on a CPU, 83 s on a GPU", flush=True)


def products(devices, seed, found):
    """The seconds of a product in three ways, printed: by NumPy, there, and back and forth."""
    x, y = np.random.default_rng(seed).random((2, ROWS, ROWS), dtype="float32")
    found["numpy"] = median_of(lambda: x @ y)
    print(f"a product of {ROWS} by {ROWS} by NumPy: {time_text(found['numpy'])}")
    for device in devices:
        if not device.is_simulated:
            found[str(device)] = there, back = product_on(device, x, y)
            print(f"on {device}: {time_text(there)}; back and forth each time: {time_text(back)}")
    print("published: the GPU 6 times as fast as NumPy, and as slow if it goes back and forth")


def product_on(device, x, y):
    """The seconds of a product of tensors there, and of one of NumPy's arrays by way of it."""
    with device:
        X, Y = unidev.array(x), unidev.array(y)

        def waited():
            kept = X @ Y
            unidev.synchronize(device)
            return kept

        there = median_of(waited)
        back = median_of(lambda: unidev.to_numpy(unidev.array(x) @ unidev.array(y)))
    return there, back


def median_of(call):
    """The median of its seconds."""
    return statistics.median(timeit.repeat(call, number=1, repeat=30))


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
    add("--full", action="store_true",
        help=f"the published size: {FULL_EPOCHS} epochs of {IMAGES:,} images")  # fmt: skip
    add("--epochs", type=positive,
        help=f"the number of epochs (default: 1; with --full {FULL_EPOCHS})")  # fmt: skip
    add("--drawn", type=positive,
        help=f"the images to draw (default: {DRAWN:,}; with --full {IMAGES:,})")  # fmt: skip
    add("--idx", nargs=2, metavar=("IMAGES", "LABELS"),
        help="read the images and labels from these files instead")  # fmt: skip
    add("--on", nargs="+", metavar="DEVICE", help="in turn (default: the CPU and the first GPU)")
    add("--seed", type=int, default=0, help="for the weights and the data (default: 0)")
    add("--json", type=output_file, metavar="FILE", help="also write the numbers to this file")
    given = parser.parse_args()
    given.epochs = given.epochs or (FULL_EPOCHS if given.full else 1)
    given.drawn = given.drawn or (IMAGES if given.full else DRAWN)
    return given


def main():
    """Train on each device, multiply, and report; Ctrl-C keeps the results so far."""
    given = arguments()
    devices = list(dict.fromkeys(map(unidev.as_device, given.on or ("cpu", unidev.try_gpu()))))
    unidev.no_grad()  # an error with NumPy, which has no gradients
    unidev.seed(given.seed)  # an error if it is negative
    data = read_images(*given.idx) if given.idx else draw(given.drawn, given.seed)
    runs, found, code = [], {}, 0
    try:
        for device in devices:
            runs.append({"device": str(device), "losses": [], "seconds a step": None})
            train(device, given, data, runs[-1])
        products(devices, given.seed, found)
    except KeyboardInterrupt:
        code = 130
    for run in runs:
        report(run, -(-len(data[1]) // BATCH))
    compare(runs)
    if all(device.kind == "cpu" or device.is_simulated for device in devices):
        print("No real GPU took part: this is the CPU's side alone.")
    if given.json:
        found = {"backend": devices[0].backend, "runs": runs, "products": found}
        given.json.write_text(json.dumps(found) + "\n")
    return code


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (unidev.UnidevError, OSError) as error:
        sys.exit(f"cpu_or_gpu.py: {error}")
