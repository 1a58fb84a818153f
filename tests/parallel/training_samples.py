"""Training in workers, with checkpoints; workers import it."""

from __future__ import annotations

import os
import resource
import signal
from pathlib import Path
from typing import Any

import numpy as np

import unidev
from unidev.parallel.exchange import checkpoints

STEPS = 6


def train(folder: str, fails_at: int = 0, how: str = "killed") -> tuple[int, bytes]:
    """A model of NumPy's with momentum; worker 1 fails at a step, once. Returns what is left."""
    group = unidev.group()
    model = {"w": unidev.full(5, 1.0), "momentum": unidev.zeros(5)}
    begun = group.restore(model)
    for step in range(begun + 1, STEPS + 1):
        if step == fails_at and is_first_time(folder, group.rank):
            fail(how, group.rank)
        rows = np.random.default_rng(step).standard_normal((4, 5)).astype(np.float32)
        own = group.split_batch(unidev.array(rows))
        gradient = group.all_reduce(model["w"] * own.mean(0), "mean")
        model["momentum"] *= np.float32(0.9)
        model["momentum"] += gradient
        model["w"] -= np.float32(0.1) * model["momentum"]
        if step % 2 == 0:
            group.checkpoint(model, step)
    return begun, model["w"].tobytes()


def is_first_time(folder: str, rank: int) -> bool:
    file = Path(folder) / f"failed-{rank}"
    is_new = not file.exists()
    file.touch()
    return is_new


def fail(how: str, rank: int) -> None:
    if how == "killed" and rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "while writing" and rank == 0:
        write = checkpoints.save_parameters

        def half(model: Any, path: Path) -> None:
            write(model, path)
            path.write_bytes(path.read_bytes()[:100])
            os.kill(os.getpid(), signal.SIGKILL)

        checkpoints.save_parameters = half  # type: ignore[attr-defined]


def always_failing() -> None:
    raise ArithmeticError("as ever")


def on_a_full_disk() -> str:
    """A checkpoint, then a second one that does not fit."""
    group = unidev.group()
    model = {"w": unidev.full(5000, 1.0)}
    group.checkpoint(model, 1)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
    model["w"][:] = 2.0
    try:
        group.checkpoint(model, 2)
    except OSError as error:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        return f"{error.strerror}: {group.restore(model)} {model['w'][0]}"
    return "no error"


def of_another_model(step: int) -> str:
    group = unidev.group()
    if step:
        group.checkpoint({"w": unidev.ones(3)}, step)
        return ""
    try:
        group.restore({"w": unidev.ones(4)})
    except unidev.CheckpointError as error:
        return str(error)
    return "no error"


def of_another_step() -> str:
    group = unidev.group()
    try:
        group.checkpoint({"w": unidev.ones(3)}, 1 + group.rank)
    except unidev.InvalidDataError as error:
        return str(error)
    return "no error"
