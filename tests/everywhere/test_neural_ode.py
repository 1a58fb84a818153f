"""The solvers of the neural ODE, on NumPy, against an equation with a known solution."""

from __future__ import annotations

import numpy as np
import pytest
from running_examples import imported

import unidev

ode = imported("neural_ode")


def circle(u):
    """The slope of a rotation: (cos, sin, and a coordinate that stays)."""
    x, y, z = u.T
    return np.stack([-y, x, 0 * z], axis=1)


TRUE = np.stack([np.cos(ode.TIMES), np.sin(ode.TIMES), np.ones_like(ode.TIMES)], axis=1)


def solved(pieces):
    found = np.full((len(ode.TIMES), 3), np.nan)
    found[0] = TRUE[0]
    for which, states in pieces:
        assert np.isnan(found[which]).all()  # each time once
        found[which] = states
    return found


@pytest.mark.parametrize("tolerance", [1e-3, 1e-6, 1e-9])
def test_tsit5_reaches_every_time_within_its_tolerance(tolerance):
    start = TRUE[:1]
    found = solved(ode.tsit5(circle, start, relative=tolerance, absolute=tolerance))
    assert abs(found - TRUE).max() < 3 * tolerance


def test_tsit5_takes_fewer_steps_where_it_may_err_more():
    def calls_at(tolerance):
        calls = []
        list(ode.tsit5(lambda u: calls.append(1) or circle(u), TRUE[:1], relative=tolerance))
        return len(calls)

    assert 6 < calls_at(1e-3) < calls_at(1e-9)


def test_rk4_is_of_order_four():
    found = solved(ode.rk4(circle, TRUE[:1]))
    assert 1e-13 < abs(found - TRUE).max() < ode.SPACING**4


def test_the_trajectory_is_one_of_the_lorenz_system():
    found = ode.trajectory()
    assert found.shape == (101, 3)
    assert found[0].tolist() == [1, 0, 0]
    # By central differences, of order 2.
    slopes = (found[2:] - found[:-2]) / (2 * ode.SPACING)
    error = abs(slopes - ode.lorenz(found[1:-1]))
    assert error.max() < 0.05 * abs(slopes).max()


def test_slopes_beyond_all_numbers_are_an_error_and_no_endless_search():
    with (
        np.errstate(all="ignore"),
        pytest.raises(unidev.InvalidDataError, match="left the range of numbers"),
    ):
        list(ode.tsit5(lambda u: u * np.inf, TRUE[:1]))
