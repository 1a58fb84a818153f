"""Train in one framework, save, and continue in another.

    python examples/checkpoint_across.py --backends torch paddle

One process trains the net of train_digits.py in the first framework and saves its parameters. A
second process builds the same net in the other framework, loads the parameters, compares its
outputs with those of the first process, and continues training. Without --backends, it uses two of
the installed frameworks (torch, tensorflow, paddle, mxnet, jax), or the only one twice.
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
    """Print how well the net reads the test images, and return its outputs."""
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


def arguments():
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--backends", nargs=2, metavar=("FIRST", "SECOND"), help="the two frameworks")
    add("--epochs", type=integer_from(1), default=5, metavar="N",
        help="epochs in each framework (default: 5)")  # fmt: skip
    add("--seed", type=integer_from(0), default=0, metavar="N",
        help="for the weights and the batches (default: 0)")  # fmt: skip
    add("--folder", type=Path, help="keeps the checkpoint (default: a temporary folder)")
    add("--stage", choices=STAGES, help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    """Run both stages, or the stage that this process was started for."""
    given = arguments()
    check_installed(sklearn="scikit-learn", rich="rich")
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
    except (unidev.UnsupportedOperation, unidev.BackendError, unidev.SimulationError) as error:
        sys.exit(f"checkpoint_across.py: {error}")
