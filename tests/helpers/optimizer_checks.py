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


def check_refused(model: Any, optimizer: Any, wrong: list[dict[str, Any]]) -> None:
    """Each of ``wrong`` is refused, and what the optimizer has stays."""
    models = unidev.active_backend().models
    before = models.optimizer_state(optimizer)
    for each in wrong:
        with pytest.raises(unidev.CheckpointError) as raised:
            models.load_optimizer_state(model, optimizer, each)
        assert raised.value.problems
        now = models.optimizer_state(optimizer)
        assert now.keys() == before.keys()
        assert all(np.array_equal(now[name], before[name]) for name in now)
