"""Checkpoints of a run: a folder for each, and a file that names the last one.

A checkpoint counts once it is named, which happens at once. Until then the one before is there.
"""

from __future__ import annotations

import re
import secrets
import shutil
from typing import TYPE_CHECKING, Any

from unidev.errors import CheckpointError
from unidev.models.checkpoints.verbs import (
    load_optimizer,
    load_parameters,
    save_optimizer,
    save_parameters,
)
from unidev.system.atomic_file import SUFFIX, sync, write_whole

if TYPE_CHECKING:
    from pathlib import Path

    from unidev.contract.backend import Backend

_MODEL, _OPTIMIZER = "model.safetensors", "optimizer.safetensors"
_LAST = "last"
"""The file with the name of the last one; without it there is none."""
_NAME = re.compile(r"step-(\d+)(?:-\d+)?")
"""With another number where the step was written before."""


def write(folder: Path, step: int, model: Any, optimizer: Any, backend: Backend) -> None:
    """Write the checkpoint of ``step``, and delete those before; if it raises, nothing remains."""
    for left in folder.glob(f"*{SUFFIX}"):  # by a worker that was killed
        if left.is_dir():
            shutil.rmtree(left, ignore_errors=True)
        else:
            left.unlink()
    part = folder / f"{secrets.token_hex(4)}{SUFFIX}"
    target = _free(folder, step)
    part.mkdir()
    try:
        save_parameters(model, part / _MODEL)
        if optimizer is not None:
            save_optimizer(optimizer, str(part / _OPTIMIZER), backend)
        sync(part)
        part.rename(target)
        sync(folder)
        write_whole(folder / _LAST, target.name)
    except BaseException:
        for left in (part, target):
            shutil.rmtree(left, ignore_errors=True)
        raise
    for _, other in _all(folder):
        if other != target:
            shutil.rmtree(other, ignore_errors=True)


def _free(folder: Path, step: int) -> Path:
    """A folder for ``step`` that does not exist, so that none has to go before it is there."""
    target, number = folder / f"step-{step}", 1
    while target.exists():
        number += 1
        target = folder / f"step-{step}-{number}"
    return target


def newest(folder: Path) -> tuple[int, dict[str, bytes]]:
    """The step of the checkpoint written last, or 0, and the content of its files."""
    file = folder / _LAST
    name = file.read_text(encoding="utf-8") if file.exists() else ""
    found = [each for each in _all(folder) if each[1].name == name]
    if not found:
        return 0, {}
    [(step, last)] = found
    return step, {file.name: file.read_bytes() for file in sorted(last.iterdir())}


def load(place: Path, model: Any, optimizer: Any, backend: Backend) -> None:
    """Load the files of a checkpoint, in the folder ``place``, into the model and the optimizer."""
    has_state = (place / _OPTIMIZER).exists()
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
