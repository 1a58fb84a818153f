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

import gzip
import operator
import time
from functools import partial
from pathlib import Path

import numpy as np
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
    waited,
    write_json,
)
from train_digits import integer_from

import unidev
from unidev.bench import images
from unidev.bench.measuring import measure
from unidev.system.wording import count_text, seconds_text

DRAWN, FULL_EPOCHS = 6400, 10
ROWS = 200


def read_idx(path):
    """An array of bytes from a file in the IDX format: https://yann.lecun.com/exdb/mnist/."""
    content = (gzip.open if path.endswith(".gz") else open)(path, "rb")
    with content as file:
        data = file.read()
    if len(data) < 4 or data[:3] != b"\0\0\x08":
        raise ValueError(f"{path} is not an IDX file of bytes")
    sizes = np.frombuffer(data, ">i4", data[3], offset=4)
    values = np.frombuffer(data, "uint8", offset=4 + 4 * data[3])
    if values.size != sizes.prod():
        raise ValueError(f"{path} has {values.size:,} bytes, and its header says {sizes.prod():,}")
    return values.reshape(sizes)


def read_images(image_path, label_path):
    """Images and labels of two IDX files, normalised as PyTorch's example does."""
    pictures, labels = read_idx(image_path), read_idx(label_path)
    if pictures.ndim != 3 or pictures.shape[1:] != (images.PIXELS, images.PIXELS):
        raise ValueError(f"{image_path} has no images of 28 by 28: its shape is {pictures.shape}")
    if labels.shape != pictures.shape[:1] or labels.max(initial=0) >= images.CLASSES:
        raise ValueError(f"{label_path} has no labels from 0 to 9, one for each image")
    scaled = (pictures[:, None].astype("float32") / 255 - images.MEAN) / images.DEVIATION
    return scaled.astype("float32"), labels.astype("int64")


def train(device, given, data, attempt):
    """Train for the epochs, until Ctrl-C at most; returns the losses and the seconds a step."""
    unidev.seed(given.seed)
    pictures, labels = data
    steps = -(-len(labels) // images.BATCH)
    total, losses = steps * given.epochs, []
    with device:
        step = images.stepper(images.make_net())

        def take(chosen):
            X = unidev.array(pictures[chosen], device=device)
            y = unidev.array(labels[chosen], device=device)
            losses.append(unidev.to_numpy(step(X, y)).item())

        began, first = time.perf_counter(), 0
        with attempt, counting(f"steps on {device}", total) as count:
            for epoch in range(given.epochs):
                order = np.random.default_rng([given.seed, epoch]).permutation(len(labels))
                for start in range(0, len(labels), images.BATCH):
                    take(order[start : start + images.BATCH])
                    count(len(losses))
                    if len(losses) == 1:  # it compiles and allocates, and is not counted
                        began, first = time.perf_counter(), 1
                    if given.full and len(losses) == 11:
                        each = (time.perf_counter() - began) / 10
                        announce(f"{count_text(given.epochs, 'epoch')} on {device}", each * total)
    return losses, (time.perf_counter() - began) / max(1, len(losses) - first)


def report(device, losses, each, epoch_steps):
    """Print what was found on one device, and return it for the JSON file."""
    print(f"{device}: losses {listed(losses)}")
    if losses:
        # An epoch is that of the published size, whatever was run.
        epoch_s = each * -(-images.IMAGES // images.BATCH)
        print(
            f"{device}: {len(losses):,} steps, each: {time_text(device, each)}; an epoch of "
            f"{images.IMAGES:,} images at that rate: {time_text(device, epoch_s)}; mean loss of "
            f"the last {min(epoch_steps, len(losses)):,} steps "
            f"{np.mean(losses[-epoch_steps:]):.4f}",
            flush=True,
        )
    return {
        "device": str(device),
        "losses": losses,
        "seconds a step": seconds_or_none(device, each),
    }


def compare(runs):
    """Print the ratio of the epochs, if two devices have times."""
    timed = [run for run in runs if run["seconds a step"] is not None and run["losses"]]
    if len(timed) > 1:
        first, second = timed[:2]
        ratio = first["seconds a step"] / second["seconds a step"]
        print(f"{second['device']} is {ratio:.3g} times as fast as {first['device']}")
    print("published, ten epochs: 153 s on a CPU, 83 s on a GPU")


def products(devices, seed):
    """The seconds of a product in three ways, printed: by NumPy, there, and back and forth."""
    x, y = np.random.default_rng(seed).random((2, ROWS, ROWS), dtype="float32")
    numpy_s = measure(lambda: x @ y).median_s
    print(f"a product of {ROWS} by {ROWS} by NumPy: {seconds_text(numpy_s)}")
    found = {"numpy": numpy_s}
    for device in devices:
        if device.is_simulated:
            continue
        X, Y = (unidev.array(each, device=device) for each in (x, y))
        with device:
            there = measure(waited(device, partial(operator.matmul, X, Y))).median_s
            back = measure(partial(back_and_forth, device, x, y)).median_s
        print(f"on {device}: {seconds_text(there)}; back and forth each time: {seconds_text(back)}")
        found[str(device)] = [there, back]
    print("published: the GPU 6 times as fast as NumPy, and as slow if it goes back and forth")
    return found


def back_and_forth(device, x, y):
    """A product of NumPy's arrays, whose result is one again."""
    return unidev.to_numpy(unidev.array(x, device=device) @ unidev.array(y, device=device))


def arguments():
    """Parse the command line."""
    parser = options(__doc__, f"{FULL_EPOCHS} epochs of {images.IMAGES:,} images")
    add = parser.add_argument
    add("--epochs", type=integer_from(1), metavar="N",
        help=f"the number of epochs (default: 1; with --full {FULL_EPOCHS})")  # fmt: skip
    add("--drawn", type=integer_from(1), metavar="N",
        help=f"the images to draw (default: {DRAWN:,}; with --full {images.IMAGES:,})")  # fmt: skip
    add("--idx", nargs=2, metavar=("IMAGES", "LABELS"),
        help="read the images and labels from these files instead")  # fmt: skip
    given = parser.parse_args()
    given.epochs = given.epochs or (FULL_EPOCHS if given.full else 1)
    if given.idx and given.drawn:
        parser.error("argument --drawn: not with --idx, which reads all images of its files")
    for path in given.idx or ():
        if not Path(path).is_file():
            parser.error(f"argument --idx: there is no file {path!r}")
    given.drawn = given.drawn or (images.IMAGES if given.full else DRAWN)
    return given, chosen_devices(parser, given.on)


def main():
    """Train on each device, multiply, and report."""
    given, devices = arguments()
    check_gradients()
    try:
        data = read_images(*given.idx) if given.idx else images.draw(given.drawn, given.seed)
    except (ValueError, OSError) as error:
        raise unidev.InvalidDataError(f"argument --idx: {error}") from error
    attempt, runs, found = Attempt(), [], {}
    epoch_steps = -(-len(data[1]) // images.BATCH)
    for device in devices:
        if attempt.is_stopped:
            break
        runs.append(report(device, *train(device, given, data, attempt), epoch_steps))
    compare(runs)
    if not attempt.is_stopped:
        with attempt:
            found = products(devices, given.seed)
    say_what_is_missing(devices)
    write_json(given.json, {"backend": devices[0].backend, "runs": runs, "products": found})
    return attempt.is_stopped


if __name__ == "__main__":
    run("cpu_or_gpu", main)
