"""Comparing a saved state of an optimizer with the optimizer that is to have it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unidev.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    Array = np.ndarray[Any, Any]


def check_state(
    kind: str, shapes: Mapping[str, tuple[int, ...]], given: Mapping[str, Array]
) -> None:
    """Raise ``CheckpointError`` unless ``given`` has the names and shapes of this optimizer.

    Args:
        kind: the optimizer's class, for the message.
        shapes: what the optimizer has, by name.
        given: what was saved.
    """
    problems = [f"{name}: not in the file" for name in shapes.keys() - given.keys()]
    problems += [f"{name}: not in this {kind}" for name in given.keys() - shapes.keys()]
    problems += [
        f"{name}: {given[name].shape} in the file, {shape} here"
        for name, shape in shapes.items()
        if name in given and given[name].shape != shape
    ]
    if problems:
        raise CheckpointError(
            f"the state is not that of this {kind}: {problems[0]}", problems=sorted(problems)
        )
