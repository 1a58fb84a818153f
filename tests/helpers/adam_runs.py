"""Training with a framework's own Adam in workers, of which one is killed; workers import it."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import unidev

if TYPE_CHECKING:
    from collections.abc import Callable

STEPS = 6


def trained(
    folder: str,
    fails_at: int,
    trained_ones: tuple[Any, Any],
    loss_of: Callable[..., Any],
    step: Callable[[Any, Any, dict[str, Any]], None],
) -> tuple[int, bytes]:
    """Worker 1 is killed at a step, once. Returns where this attempt began, and the parameters.

    ``trained_ones`` are a model and its optimizer; ``step(net, optimizer, gradients)`` makes one of
    the framework's own steps.
    """
    group = unidev.group()
    net, optimizer = trained_ones
    parallel = unidev.DataParallel(net)
    begun = group.restore(parallel, optimizer)
    for number in range(begun + 1, STEPS + 1):
        killed = Path(folder) / "killed"
        if number == fails_at and group.rank == 1 and not killed.exists():
            killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        draw = np.random.default_rng(number).standard_normal
        batch = [unidev.array(draw((7, width)).astype(np.float32)) for width in (4, 3)]
        _, gradients = unidev.value_and_grad(loss_of)(parallel, *group.split_batch(batch))
        step(net, optimizer, gradients)
        if number % 2 == 0:
            group.checkpoint(parallel, number, optimizer)
    found = unidev.parameters(parallel).values()
    return begun, b"".join(unidev.to_numpy(x).tobytes() for x in found)


def check_killed(
    train: Callable[[str, int], Any], backend: str, folder: Path, **options: Any
) -> None:
    """The bits after a failure are those of an undisturbed run."""
    runs = {}
    for name, fails_at in (("undisturbed", 0), ("killed", 4)):
        place = folder / name
        # Only one failure is made here. But another process may take a port of the run's before a
        # worker listens there, which uses up a retry, too.
        runs[name] = unidev.run(
            train, str(place), fails_at, backend=backend, retries=3, checkpoints=place, **options
        )
    (begun, bits), *others = runs["undisturbed"]
    assert begun == 0
    assert others == [(begun, bits)]
    assert [each[0] for each in runs["killed"]] == [2, 2], runs["killed"]
    for _, found in runs["killed"]:
        values = [np.frombuffer(each, np.float32).tolist() for each in (found, bits)]
        assert values[0] == values[1], values
    assert bits != b""
