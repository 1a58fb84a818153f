"""An optimizer that goes on from its saved state gives the bits of an undisturbed one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import unidev

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def check_continued(
    made: Callable[[], tuple[Any, Any]], step: Callable[[Any, Any, int], None], folder: Path
) -> None:
    """``made()`` gives a model and a new optimizer; ``step`` makes one step with the number."""
    models = unidev.active_backend().models
    net, optimizer = made()
    for number in range(3):
        step(net, optimizer, number)
    state = models.optimizer_state(optimizer)
    assert all(type(values) is np.ndarray for values in state.values())
    kept = {name: values.copy() for name, values in state.items()}
    unidev.save_parameters(net, folder / "model")
    for number in range(3, 6):
        step(net, optimizer, number)
    assert all(np.array_equal(kept[name], values) for name, values in state.items())  # no view
    for steps_before in (0, 1):
        other, again = made()
        for _ in range(steps_before):
            step(other, again, 7)
        unidev.load_parameters(other, folder / "model")
        models.load_optimizer_state(other, again, state)
        for number in range(3, 6):
            step(other, again, number)
        assert [x.tobytes() for x in arrays(net)] == [x.tobytes() for x in arrays(other)]


def arrays(net: Any) -> list[np.ndarray[Any, Any]]:
    return [unidev.to_numpy(x) for x in unidev.parameters(net).values()]


def check_foreign_refused(net: Any, optimizer: Any, of_another: Any, unknown: str) -> None:
    """State of another optimizer is refused, and changes nothing.

    ``optimizer`` has made a step; ``of_another`` is one of another class; ``unknown`` is a name
    that the state of the former lacks.
    """
    models = unidev.active_backend().models
    state = dict(models.optimizer_state(optimizer))
    name = next(name for name, values in state.items() if values.ndim == 2)
    wrong = [
        models.optimizer_state(of_another),
        {key: values for key, values in state.items() if key != name},
        {**state, unknown: np.zeros(3)},
        {**state, name: np.zeros((5, 4), np.float32)},
    ]
    for each in wrong:
        with pytest.raises(unidev.CheckpointError) as raised:
            models.load_optimizer_state(net, optimizer, each)
        assert raised.value.problems
        now = models.optimizer_state(optimizer)
        assert now.keys() == state.keys()
        assert all(np.array_equal(now[name], state[name]) for name in now)
