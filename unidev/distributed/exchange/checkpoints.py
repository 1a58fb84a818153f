"""Checkpoints of a run: a folder for each, which is there as a whole or not at all."""

from __future__ import annotations

import os
import re
import secrets
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from unidev.errors import CheckpointError
from unidev.models.checkpoints.optimizers import load_optimizer, save_optimizer
from unidev.models.checkpoints.verbs import load_parameters, save_parameters

if TYPE_CHECKING:
    from pathlib import Path

    from unidev.contract.backend import Backend

_MODEL, _OPTIMIZER = "model.safetensors", "optimizer.safetensors"
_NAME = re.compile(r"step-(\d+)")
_PART = ".unidev-part"


def write(folder: Path, step: int, model: Any, optimizer: Any, backend: Backend) -> None:
    """Write the checkpoint of ``step``, and delete older ones.

    Raises:
        OSError: it cannot be written; nothing remains of it, and the last one is still there.
        UnsupportedOperation: the framework does not show the state of this optimizer.
    """
    for left in folder.glob(f"*{_PART}"):  # by a worker that was killed
        shutil.rmtree(left, ignore_errors=True)
    part = folder / f"step-{step}.{secrets.token_hex(4)}{_PART}"
    part.mkdir()
    try:
        save_parameters(model, part / _MODEL)
        if optimizer is not None:
            save_optimizer(optimizer, str(part / _OPTIMIZER), backend)
        target = folder / f"step-{step}"
        if target.exists():  # of an attempt that has failed later
            shutil.rmtree(target)
        part.rename(target)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    _sync(folder)
    for number, other in _all(folder):
        if number < step:
            shutil.rmtree(other, ignore_errors=True)


def newest(folder: Path) -> tuple[int, dict[str, bytes]]:
    """The step of the newest checkpoint, or 0, and the content of its files."""
    found = _all(folder)
    if not found:
        return 0, {}
    step, last = max(found)
    return step, {file.name: file.read_bytes() for file in sorted(last.iterdir())}


def load(
    files: dict[str, bytes], place: Path, model: Any, optimizer: Any, backend: Backend
) -> None:
    """Load ``files`` into the model and the optimizer; ``place`` is an empty folder for them.

    Raises:
        CheckpointError: they are damaged, or those of another model or optimizer.
    """
    for name, content in files.items():
        (place / name).write_bytes(content)
    has_state = _OPTIMIZER in files
    if has_state != (optimizer is not None):
        has, given = ("has", "none was given") if has_state else ("has none", "one was given")
        raise CheckpointError(
            f"the checkpoint {has} the state of an optimizer, but {given}: pass optimizer=… to "
            "both checkpoint and restore, or to neither."
        )
    load_parameters(model, place / _MODEL)
    if has_state:
        load_optimizer(model, optimizer, str(place / _OPTIMIZER), backend)


def _all(folder: Path) -> list[tuple[int, Path]]:
    found = ((_NAME.fullmatch(each.name), each) for each in folder.iterdir())
    return [(int(match[1]), each) for match, each in found if match]


def _sync(folder: Path) -> None:
    with suppress(PermissionError):
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
