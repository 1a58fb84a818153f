"""Is a GPU worth it for a neural ODE? The DiffEqFlux question, the same on every framework.

A net of 3 to 100 to 3 learns the Lorenz system through an adaptive solver, on each device in turn:

    UNIDEV_BACKEND=torch python examples/neural_ode.py

Tsit5 solves from (1, 0, 0) over 101 times from 0 to 1; the sum of squares falls by the framework's
own Adam. Each iteration is some hundred products of a hundred numbers, one after the other, so a
device that takes 12 µs for any call loses to a CPU that takes 1. ``docs/questions.md`` has the
published figures. The computation itself is ``unidev/bench/ode.py``. The backend is torch,
tensorflow, paddle, mxnet or jax; NumPy has no gradients.
"""

import time

from multi_gpu import seconds_of
from own_optimizer import adam_of
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
from unidev.bench import ode
from unidev.bench.measuring import measure

LEARNING_RATE = 0.01
SHORT, FULL = 20, 1000
FLOOR = (
    ("100 by 100, by a vector", (100, 100), (100, 1), "56.3 µs on the CPU, 12.5 µs on the GPU"),
    ("100 by 3, by 3", (100, 3), (3, 1), "252 ns on the CPU, 12.2 µs on the GPU"),
)
"""Products: their name, the shapes, and what was published for them."""


def floor(device):
    """The seconds of each product, waited for, on this device."""

    def product_of(rows, column):
        X, y = unidev.rand(rows, device=device), unidev.rand(column, device=device)
        with device:
            return measure(waited(device, lambda: X @ y)).median_s

    return [product_of(rows, column) for _, rows, column, _ in FLOOR]


def print_floors(devices):
    """A line for each product."""
    real = [each for each in devices if not each.is_simulated]
    found = [floor(device) for device in real]
    for (name, _, _, published), *seconds in zip(FLOOR, *found, strict=True):
        here = ", ".join(
            f"{time_text(device, each)} on {device}"
            for device, each in zip(real, seconds, strict=True)
        )
        print(f"a product of {name}: {here} (published: {published})")
    return {str(device): seconds for device, seconds in zip(real, found, strict=True)}


def train(device, given, attempt):
    """Train on ``device``, until Ctrl-C at most; returns what was found."""
    unidev.seed(given.seed)
    with device:
        net = ode.make_net()
        step = adam_of(net, LEARNING_RATE)
        start, data = ode.start_and_data()
        gradients_of = unidev.value_and_grad(ode.loss_of)
        # The first call compiles and allocates.
        once = [seconds_of(gradients_of, net, start, data, given.solver) for _ in range(2)][1]
        if given.full:
            announce(f"{given.iterations:,} iterations on {device}", once * given.iterations)
        losses, began = [], time.perf_counter()
        with attempt, counting(f"iterations on {device}", given.iterations) as count:
            while len(losses) < given.iterations:
                loss, gradients = gradients_of(net, start, data, given.solver)
                step(gradients)
                losses.append(unidev.to_numpy(loss).item())
                count(len(losses))
        unidev.synchronize(device)
    return losses, time.perf_counter() - began


def report(device, losses, seconds):
    """Print what was found on one device, and return it for the JSON file."""
    count = len(losses)
    print(f"{device}: losses {listed(losses)}")
    if count:
        print(
            f"{device}: {count:,} iterations, each: {time_text(device, seconds / count)}; "
            f"the loss went from {losses[0]:.4g} to {losses[-1]:.4g}",
            flush=True,
        )
    return {"device": str(device), "losses": losses, "seconds": seconds_or_none(device, seconds)}


def arguments():
    """Parse the command line."""
    parser = options(__doc__, f"{FULL:,} iterations")
    add = parser.add_argument
    add("--iterations", type=integer_from(1), metavar="N",
        help=f"the number of iterations (default: {SHORT})")  # fmt: skip
    add("--solver", choices=list(ode.SOLVERS), default="tsit5",
        help="tsit5 chooses its steps, rk4 takes 100 (default: tsit5)")  # fmt: skip
    given = parser.parse_args()
    given.iterations = given.iterations or (FULL if given.full else SHORT)
    return given, chosen_devices(parser, given.on)


def main():
    """Measure the floor, train on each device, and report."""
    given, devices = arguments()
    check_gradients()
    attempt, runs, floors = Attempt(), [], {}
    with attempt:
        floors = print_floors(devices)
    for device in devices:
        if attempt.is_stopped:
            break
        runs.append(report(device, *train(device, given, attempt)))
    say_what_is_missing(devices)
    write_json(given.json, {"backend": devices[0].backend, "floors": floors, "runs": runs})
    return attempt.is_stopped


if __name__ == "__main__":
    run("neural_ode", main)
