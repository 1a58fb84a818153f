"""Train in one framework, save, and carry on in another.

    python examples/checkpoint_across.py --backends torch paddle

One process trains the net of train_digits.py in the first framework and saves its parameters. A
second process, of the other framework, builds the same net, loads them, compares its outputs with
those that the first one had, and goes on training. Without --backends, these are two of the
frameworks that are installed (torch, tensorflow, paddle, mxnet), or twice the one that is.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from train_digits import check_installed, evaluate, integer_from, load_data, make_net, train

import unidev


def report(net):
    """Print how well the net reads the test images, and give its outputs."""
    outputs, loss, accuracy = evaluate(net, load_data()[1])
    device = unidev.device_of(net)
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
    """The second stage: a net of other weights gets the saved ones, and trains on."""
    net = make_net()
    unidev.load_parameters(net, folder / "digits.safetensors", device=unidev.try_gpu())
    difference = np.abs(report(net) - np.load(folder / "outputs.npy")).max()
    print(f"its outputs differ from those before by {difference:.1e} at most")
    if difference > 1e-5:
        sys.exit("this is not the net that was saved")
    train(net, epochs, seed, first=epochs + 1)
    report(net)


STAGES = {"save": train_and_save, "load": load_and_carry_on}


def run_stage(stage, backend, given, folder):
    """Run one stage in a process of its own, since a process has one selected backend."""
    print(f"-- {backend}", flush=True)
    options = ["--epochs", str(given.epochs), "--seed", str(given.seed)]
    done = subprocess.run(
        [sys.executable, __file__, "--stage", stage, "--folder", folder, *options],
        env={**os.environ, "UNIDEV_BACKEND": backend},
    )
    if done.returncode:
        sys.exit(done.returncode)


def installed_backends():
    """Two of the frameworks that are here, or one of them twice."""
    names = ("torch", "tensorflow", "paddle", "mxnet")
    here = [name for name in names if name in unidev.list_backends() and find_spec(name)]
    if not here:
        sys.exit(f"this example needs one of {', '.join(names)}, with its plugin of unidev")
    return [here[0], here[-1]]


def arguments():
    """What the command line says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--backends", nargs=2, metavar=("FIRST", "SECOND"), help="who trains, and who carries on")
    add("--epochs", type=integer_from(1), default=5, metavar="N",
        help="how often each of the two sees each image (default: 5)")  # fmt: skip
    add("--seed", type=integer_from(0), default=0, metavar="N",
        help="for the weights and the batches (default: 0)")  # fmt: skip
    add("--folder", type=Path, help="where the checkpoint is kept (default: nowhere)")
    add("--stage", choices=STAGES, help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    """Run both stages, or the one that this process was started for."""
    given = arguments()
    check_installed(sklearn="scikit-learn", rich="rich")
    if given.stage:
        STAGES[given.stage](given.folder, given.epochs, given.seed)
        return
    first, second = given.backends or installed_backends()
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        run_stage("save", first, given, folder)
        run_stage("load", second, given, folder)


if __name__ == "__main__":
    try:
        main()
    except (unidev.UnsupportedOperation, unidev.BackendError) as error:
        sys.exit(f"checkpoint_across.py: {error}")
