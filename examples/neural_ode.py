"""Is a GPU worth it for a neural ODE? The DiffEqFlux question, the same on every framework.

A net of 3 to 100 to 3 learns the Lorenz system through an adaptive solver, on each device in turn:

    UNIDEV_BACKEND=torch python examples/neural_ode.py

Tsit5 solves from (1, 0, 0) over 101 times from 0 to 1; Adam reduces the sum of squares. Each
iteration is some hundred products of a hundred numbers, one after the other, so a device that takes
12 µs for any call loses to a CPU that takes 1. ``docs/questions.md`` has the published figures. The
backend is torch, tensorflow, paddle, mxnet or jax; NumPy has no gradients.
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

LEARNING_RATE = 0.01
SHORT, FULL = 20, 1000
FLOOR = (
    ("100 by 100, by a vector", (100, 100), (100, 1), "56.3 µs on the CPU, 12.5 µs on the GPU"),
    ("100 by 3, by 3", (100, 3), (3, 1), "252 ns on the CPU, 12.2 µs on the GPU"),
)
"""Products: their name, the shapes, and what was published for them."""

SIGMA, RHO, BETA = 10.0, 28.0, 8.0 / 3.0
START = (1.0, 0.0, 0.0)
TIMES = np.linspace(0.0, 1.0, 101)
HIDDEN = 100
SPACING = 0.01
"""Between two times; also the first step of Tsit5, and every step of RK4."""
RELATIVE, ABSOLUTE = 1e-3, 1e-6
"""The tolerances of Tsit5, which are those of DifferentialEquations.jl."""

# Tsitouras 2011, https://doi.org/10.1016/j.camwa.2011.06.002: the pair of orders 5 and 4. The last
# stage is evaluated at the step's end, so it is the first of the next step.
STAGES = (
    (0.161,),
    (-0.008480655492356989, 0.335480655492357),
    (2.8971530571054935, -6.359448489975075, 4.3622954328695815),
    (5.325864828439257, -11.748883564062828, 7.4955393428898365, -0.09249506636175525),
    (5.86145544294642, -12.92096931784711, 8.159367898576159, -0.071584973281401,
     -0.028269050394068383),
    (0.09646076681806523, 0.01, 0.4798896504144996, 1.379008574103742, -3.290069515436081,
     2.324710524099774),
)  # fmt: skip
ERRORS = (
    -0.00178001105222577714, -0.0008164344596567469, 0.007880878010261995, -0.1447110071732629,
    0.5823571654525552, -0.45808210592918697, 1 / 66,
)  # fmt: skip


def lorenz(u):
    """The slope of the Lorenz system, of rows of three coordinates."""
    x, y, z = u.T
    return np.stack([SIGMA * (y - x), x * (RHO - z) - y, x * y - BETA * z], axis=1)


def trajectory():
    """The Lorenz system from ``START``, a row for each of ``TIMES``; float64, within 1e-7."""
    found = np.empty((len(TIMES), 3))
    found[0] = START
    for which, states in tsit5(lorenz, np.array([START]), relative=1e-10, absolute=1e-10):
        found[which] = states
    return found


def make_net():
    """The net that stands for the slope: 3 to 100 to 3, with tanh."""
    return nn.sequential(nn.dense(3, HIDDEN), nn.tanh(), nn.dense(HIDDEN, 3))


def start_and_data():
    """The arguments of ``loss_of`` in float32, on the device of the innermost ``with device:``."""
    return unidev.array(np.array([START], "float32")), unidev.array(trajectory().astype("float32"))


def loss_of(net, start, data, solver="tsit5"):
    """The sum of squares, over all times, of the net's trajectory less the data.

    The gradient goes back through the solver's steps, whose sizes count as constants.
    """
    total = None
    for which, states in SOLVERS[solver](net, start):
        wanted = data[which]
        # Neither unidev nor all frameworks' tensors have a sum, but all have this mean.
        part = nn.functional.mean_squared_error(states, wanted) * float(3 * len(TIMES[which]))
        total = part if total is None else total + part
    return total


def rk4(slope, u):
    """The classical method of order 4, a step from each time to the next."""
    h = SPACING
    for index in range(1, len(TIMES)):
        k1 = slope(u)
        k2 = slope(u + k1 * (h / 2))
        k3 = slope(u + k2 * (h / 2))
        k4 = slope(u + k3 * h)
        u = u + (k1 + k2 * 2.0 + k3 * 2.0 + k4) * (h / 6)
        yield slice(index, index + 1), u


def tsit5(slope, u, relative=RELATIVE, absolute=ABSOLUTE):
    """Tsit5 with steps of its own choice; the times between are interpolated.

    Each step reads the estimated error into Python, which waits for the device.
    """
    # Python's floats: with NumPy's, Paddle computes on its default device.
    now, end, h, done = float(TIMES[0]), float(TIMES[-1]), SPACING, 1
    first, size = slope(u), np.abs(read(u))
    while done < len(TIMES):
        h = min(h, end - now)
        ks, new = stages(slope, u, first, h)
        new_size = np.abs(read(new))
        allowed = absolute + relative * np.maximum(size, new_size)
        error = float(np.sqrt(np.mean((read(weighted_sum(ks, ERRORS) * h) / allowed) ** 2)))
        if not np.isfinite(error):
            raise unidev.InvalidDataError(
                f"the solver has left the range of numbers at time {now:.3f}: the net's slopes "
                "are too steep. Take a smaller learning rate."
            )
        if error <= 1:
            is_last = h >= end - now
            after = len(TIMES) if is_last else int(np.searchsorted(TIMES, now + h, side="right"))
            if after > done:
                which = slice(done, after)
                yield which, u + interpolated(ks, (TIMES[which] - now) / h, h)
            now, u, first, size, done = now + h, new, ks[-1], new_size, after
        h *= min(10.0, max(0.2, 0.9 * max(error, 1e-10) ** -0.2))


SOLVERS = {"tsit5": tsit5, "rk4": rk4}


def stages(slope, u, first, h):
    """The slope at each stage of a step, and the state at its end."""
    ks, new = [first], u
    for weights in STAGES:
        new = u + weighted_sum(ks, [weight * h for weight in weights])
        ks.append(slope(new))
    return ks, new


def weighted_sum(ks, weights):
    """The sum of slopes times weights, for which the frameworks have no call in common."""
    total = ks[0] * weights[0]
    for k, weight in zip(ks[1:], weights[1:], strict=True):
        total = total + k * weight
    return total


def interpolated(ks, thetas, h):
    """The way from the step's start to ``thetas``, which are fractions of it; a row for each."""
    weights = np.stack(interpolation(thetas))[:, :, None] * h
    if not isinstance(ks[0], np.ndarray):
        weights = unidev.array(weights.astype("float32"), device=unidev.device_of(ks[0]))
    return weighted_sum(ks, [weights[i] for i in range(len(ks))])


def interpolation(t):
    """The weights of each stage at the fractions ``t`` of a step: the interpolant of order 4."""
    square = t * t
    return [
        -1.0530884977290216 * t * (t - 1.3299890189751412)
        * (square - 1.4364028541716351 * t + 0.7139816917074209),
        0.1017 * square * (square - 2.1966568338249754 * t + 1.2949852507374631),
        2.490627285651252793 * square * (square - 2.38535645472061657 * t + 1.57803468208092486),
        -16.54810288924490272 * (t - 1.21712927295533244) * (t - 0.61620406037800089) * square,
        47.37952196281928122 * (t - 1.203071208372362603) * (t - 0.658047292653547382) * square,
        -34.87065786149660974 * (t - 1.2) * (t - 2 / 3) * square,
        2.5 * (t - 1) * (t - 0.6) * square,
    ]  # fmt: skip


def read(u):
    """The state as an array of NumPy."""
    return u if isinstance(u, np.ndarray) else unidev.to_numpy(u)


# -- the measurements ------------------------------------------------------------------------------


def adam_of(net):
    """``step(gradients)`` of Adam; own_optimizer.py has the framework's own."""
    means, squares, done = {}, {}, 0

    def step(gradients):
        nonlocal done
        done += 1
        updates = {}
        for name, gradient in gradients.items():
            means[name] = means.get(name, 0.0) * 0.9 + gradient * 0.1
            squares[name] = squares.get(name, 0.0) * 0.999 + gradient * gradient * 0.001
            scale = (squares[name] / (1 - 0.999**done)) ** 0.5 + 1e-8
            updates[name] = means[name] / (1 - 0.9**done) / scale
        unidev.sgd(net, updates, lr=LEARNING_RATE)

    return step


def floors(devices):
    """The seconds of each product, waited for, on each real device; prints a line for each."""
    found = {str(device): [] for device in devices if not device.is_simulated}
    for name, rows, column, published in FLOOR:
        for device in map(unidev.as_device, found):
            X, y = unidev.rand(rows, device=device), unidev.rand(column, device=device)

            def waited():
                kept = X @ y  # noqa: B023  called in this turn of the loop
                unidev.synchronize(device)  # noqa: B023
                return kept

            times = timeit.repeat(waited, number=1, repeat=100)
            found[str(device)].append(statistics.median(times))
        here = ", ".join(f"{1e6 * times[-1]:.3g} µs on {name}" for name, times in found.items())
        print(f"a product of {name}: {here} (published: {published})")
    return found


def train(device, given, found):
    """Train on ``device``; the losses and the seconds are added to ``found`` as they come."""
    unidev.seed(given.seed)
    with device:
        net = make_net()
        step = adam_of(net)
        start, data = start_and_data()
        gradients_of = unidev.value_and_grad(loss_of)
        gradients_of(net, start, data, given.solver)  # the first call compiles and allocates
        unidev.synchronize(device)
        losses, began = found["losses"], time.perf_counter()
        while len(losses) < given.iterations:
            loss, gradients = gradients_of(net, start, data, given.solver)
            step(gradients)
            losses.append(unidev.to_numpy(loss).item())
            if not device.is_simulated:  # else it would be the CPU's time
                found["seconds"] = time.perf_counter() - began
            if given.full and len(losses) == 1:
                each = time.perf_counter() - began
                print(f"{given.iterations:,} iterations on {device}: about {each * FULL:.0f} s")


def report(found):
    """Print what was found on one device."""
    device, losses, seconds = found["device"], found["losses"], found["seconds"]
    print(f"{device}: losses {', '.join(f'{loss:.4g}' for loss in losses[:10])}")
    if losses:
        each = "no time, simulated" if seconds is None else f"{1e3 * seconds / len(losses):.3g} ms"
        print(
            f"{device}: {len(losses):,} iterations, each: {each}; the loss went from "
            f"{losses[0]:.4g} to {losses[-1]:.4g}",
            flush=True,
        )


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
    add("--full", action="store_true", help=f"the published size: {FULL:,} iterations")
    add("--iterations", type=positive, help=f"the number of iterations (default: {SHORT})")
    add("--solver", choices=SOLVERS, default="tsit5",
        help="tsit5 chooses its steps, rk4 takes 100 (default: tsit5)")  # fmt: skip
    add("--on", nargs="+", metavar="DEVICE", help="in turn (default: the CPU and the first GPU)")
    add("--seed", type=int, default=0, help="for the weights (default: 0)")
    add("--json", type=output_file, metavar="FILE", help="also write the numbers to this file")
    given = parser.parse_args()
    given.iterations = given.iterations or (FULL if given.full else SHORT)
    return given


def main():
    """Measure the floor, train on each device, and report; Ctrl-C keeps the results so far."""
    given = arguments()
    devices = list(dict.fromkeys(map(unidev.as_device, given.on or ("cpu", unidev.try_gpu()))))
    unidev.no_grad()  # an error with NumPy, which has no gradients
    found = {"backend": devices[0].backend, "floors": floors(devices), "runs": []}
    try:
        for device in devices:
            found["runs"].append({"device": str(device), "losses": [], "seconds": None})
            train(device, given, found["runs"][-1])
        code = 0
    except KeyboardInterrupt:
        code = 130
    for run in found["runs"]:
        report(run)
    if all(device.kind == "cpu" or device.is_simulated for device in devices):
        print("No real GPU took part: this is the CPU's side alone.")
    if given.json:
        given.json.write_text(json.dumps(found) + "\n")
    return code


if __name__ == "__main__":
    try:
        sys.exit(main())
    except unidev.UnidevError as error:
        sys.exit(f"neural_ode.py: {error}")
