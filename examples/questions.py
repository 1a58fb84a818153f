"""What the programs of docs/questions.md share: options, devices, waiting, Ctrl-C (no program)."""

import argparse
import contextlib
import json
import sys

from train_digits import integer_from, new_file

import unidev
from unidev.system.progress import progress
from unidev.system.wording import seconds_text

INTERRUPTED = 130
"""The exit code of a program that Ctrl-C has ended."""


def options(description, full, devices="in turn (default: the CPU and the first GPU)"):
    """A parser with the options that all of these programs have."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--full", action="store_true", help=f"the published size: {full}")
    add("--on", nargs="+", metavar="DEVICE",
        help=f"the devices, {devices}")  # fmt: skip
    add("--seed", type=integer_from(0), default=0, metavar="N",
        help="for the weights and the data (default: 0)")  # fmt: skip
    add("--json", type=new_file, metavar="FILE", help="also write the numbers to this file")
    return parser


def chosen_devices(parser, names, default=None):
    """The devices that ``--on`` names; an error of the command line if one is not there."""
    if names is None:
        return default or list(dict.fromkeys([unidev.cpu(), unidev.try_gpu()]))
    found = []
    for name in names:
        try:
            device = unidev.as_device(name)
            unidev.synchronize(device)  # it has to be there
        except unidev.DeviceError as error:
            parser.error(f"argument --on: {error}")
        found.append(device)
    return list(dict.fromkeys(found))


def check_gradients():
    """Raise unless the selected backend has gradients, before anything is measured."""
    with unidev.no_grad():
        pass


class Attempt:
    """Blocks that Ctrl-C ends; what they found until then is kept."""

    is_stopped = False

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.is_stopped = self.is_stopped or kind is KeyboardInterrupt
        return self.is_stopped


@contextlib.contextmanager
def counting(title, total):
    """Yield a function that takes the number of steps done, and shows it on stderr."""
    with progress(title) as show:
        yield lambda done: show(f"{title}: {done:,} of {total:,}")


def announce(what, seconds):
    """Print how long ``what`` will take, before it begins."""
    long = f", {seconds / 60:.0f} min" if seconds >= 120 else ""
    print(f"{what}: about {seconds_text(seconds)}{long}; Ctrl-C keeps what there is", flush=True)


def waited(device, work):
    """A function that does ``work()``, and waits for the device; what it gave lives until then."""

    def call():
        kept = work()
        unidev.synchronize(device)
        return kept

    return call


def time_text(device, seconds):
    """The seconds, unless the device is simulated: then they would be the CPU's."""
    return "no time, simulated" if device.is_simulated else seconds_text(seconds)


def seconds_or_none(device, seconds):
    """The same for the JSON file."""
    return None if device.is_simulated else seconds


def say_what_is_missing(devices):
    """Print which devices are simulated, and whether there is a real GPU."""
    simulated = [str(each) for each in devices if each.is_simulated]
    if simulated:
        print(
            f"{' and '.join(simulated)}: simulated. The CPU computes for them, so their times are "
            "nobody's and are left out."
        )
    if all(each.kind == "cpu" or each.is_simulated for each in devices):
        print("No real GPU took part: this is the CPU's side alone.")


def listed(losses):
    """The first ten, to four digits: the same on every framework."""
    return ", ".join(f"{loss:.4g}" for loss in losses[:10])


def write_json(path, found):
    """The numbers, if a file is given."""
    if path:
        path.write_text(json.dumps(found) + "\n")


def run(program, main):
    """Call ``main()``, which returns whether Ctrl-C stopped it; an error of unidev's is a line."""
    try:
        is_stopped = main()
    except unidev.UnidevError as error:
        sys.exit(f"{program}.py: {error}")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    sys.exit(INTERRUPTED if is_stopped else 0)
