"""A neural ODE: a small net learns the Lorenz system through a solver's steps.

``unidev bench --only ode`` times a gradient of it; ``examples/neural_ode.py`` trains it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from unidev import nn
from unidev.errors import InvalidDataError
from unidev.nn import functional
from unidev.tensors.checks import device_of
from unidev.tensors.creating import array, to_numpy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Array = np.ndarray[Any, Any]
    State = Any
    """The three coordinates in one row: a tensor of shape (1, 3), or an array of NumPy."""
    Slope = Callable[[State], State]
    Piece = tuple[slice, State]
    """Which of the times, and the state at each of them, a row for each."""

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
_STAGES = (
    (0.161,),
    (-0.008480655492356989, 0.335480655492357),
    (2.8971530571054935, -6.359448489975075, 4.3622954328695815),
    (5.325864828439257, -11.748883564062828, 7.4955393428898365, -0.09249506636175525),
    (5.86145544294642, -12.92096931784711, 8.159367898576159, -0.071584973281401,
     -0.028269050394068383),
    (0.09646076681806523, 0.01, 0.4798896504144996, 1.379008574103742, -3.290069515436081,
     2.324710524099774),
)  # fmt: skip
_ERRORS = (
    -0.00178001105222577714, -0.0008164344596567469, 0.007880878010261995, -0.1447110071732629,
    0.5823571654525552, -0.45808210592918697, 1 / 66,
)  # fmt: skip


def lorenz(u: Array) -> Array:
    """The slope of the Lorenz system, of rows of three coordinates."""
    x, y, z = u.T
    return np.stack([SIGMA * (y - x), x * (RHO - z) - y, x * y - BETA * z], axis=1)


def trajectory() -> Array:
    """The Lorenz system from ``START``, a row for each of ``TIMES``; float64, within 1e-7."""
    found = np.empty((len(TIMES), 3))
    found[0] = START
    for which, states in tsit5(lorenz, np.array([START]), relative=1e-10, absolute=1e-10):
        found[which] = states
    return found


def make_net() -> Any:
    """The net that stands for the slope: 3 to 100 to 3, with tanh."""
    return nn.sequential(nn.dense(3, HIDDEN), nn.tanh(), nn.dense(HIDDEN, 3))


def start_and_data() -> tuple[State, State]:
    """The arguments of ``loss_of`` in float32, on the device of the innermost ``with device:``."""
    return array(np.array([START], "float32")), array(trajectory().astype("float32"))


def loss_of(net: Slope, start: State, data: State, solver: str = "tsit5") -> Any:
    """The sum of squares, over all times, of the net's trajectory less the data.

    The gradient goes back through the solver's steps, whose sizes count as constants.
    """
    total = None
    for which, states in SOLVERS[solver](net, start):
        wanted = data[which]
        # Neither unidev nor all frameworks' tensors have a sum, but all have this mean.
        part = functional.mean_squared_error(states, wanted) * float(3 * len(TIMES[which]))
        total = part if total is None else total + part
    return total


def rk4(slope: Slope, u: State) -> Iterator[Piece]:
    """The classical method of order 4, a step from each time to the next."""
    h = SPACING
    for index in range(1, len(TIMES)):
        k1 = slope(u)
        k2 = slope(u + k1 * (h / 2))
        k3 = slope(u + k2 * (h / 2))
        k4 = slope(u + k3 * h)
        u = u + (k1 + k2 * 2.0 + k3 * 2.0 + k4) * (h / 6)
        yield slice(index, index + 1), u


def tsit5(
    slope: Slope, u: State, *, relative: float = RELATIVE, absolute: float = ABSOLUTE
) -> Iterator[Piece]:
    """Tsit5 with steps of its own choice; the times between are interpolated.

    Each step reads the estimated error into Python, which waits for the device.
    """
    # Python's floats: with NumPy's, Paddle computes on its default device.
    time, end, h, done = float(TIMES[0]), float(TIMES[-1]), SPACING, 1
    first, size = slope(u), np.abs(_read(u))
    while done < len(TIMES):
        h = min(h, end - time)
        ks, new = _stages(slope, u, first, h)
        new_size = np.abs(_read(new))
        allowed = absolute + relative * np.maximum(size, new_size)
        error = float(np.sqrt(np.mean((_read(_sum(ks, _ERRORS) * h) / allowed) ** 2)))
        if not np.isfinite(error):
            raise InvalidDataError(
                f"the solver has left the range of numbers at time {time:.3f}: the net's slopes "
                "are too steep. Take a smaller learning rate."
            )
        if error <= 1:
            is_last = h >= end - time
            after = len(TIMES) if is_last else int(np.searchsorted(TIMES, time + h, side="right"))
            if after > done:
                which = slice(done, after)
                yield which, u + _interpolated(ks, (TIMES[which] - time) / h, h)
            time, u, first, size, done = time + h, new, ks[-1], new_size, after
        h *= min(10.0, max(0.2, 0.9 * max(error, 1e-10) ** -0.2))


SOLVERS: dict[str, Callable[[Slope, State], Iterator[Piece]]] = {"tsit5": tsit5, "rk4": rk4}


def _stages(slope: Slope, u: State, first: State, h: float) -> tuple[list[State], State]:
    ks, new = [first], u
    for weights in _STAGES:
        new = u + _sum(ks, [weight * h for weight in weights])
        ks.append(slope(new))
    return ks, new


def _sum(ks: list[State], weights: Any) -> State:
    """The weighted sum, for what the frameworks have no call in common."""
    total = ks[0] * weights[0]
    for k, weight in zip(ks[1:], weights[1:], strict=True):
        total = total + k * weight
    return total


def _interpolated(ks: list[State], thetas: Array, h: float) -> State:
    """The way from the step's start to ``thetas``, which are fractions of it; a row for each."""
    weights: Any = np.stack(_weights(thetas))[:, :, None] * h
    if not isinstance(ks[0], np.ndarray):
        weights = array(weights.astype("float32"), device=device_of(ks[0]))
    return _sum(ks, [weights[i] for i in range(len(ks))])


def _weights(t: Array) -> list[Array]:
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


def _read(u: State) -> Array:
    return u if isinstance(u, np.ndarray) else to_numpy(u)
