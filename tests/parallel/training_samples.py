"""Training in workers, with checkpoints; workers import it."""

from __future__ import annotations

import resource

import unidev


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
