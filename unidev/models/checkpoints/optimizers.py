"""An optimizer's state in the format of checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from unidev.backends.boundary import call, errors_of
from unidev.models.checkpoints.format import Entry, metadata, nbytes, write_checkpoint
from unidev.models.checkpoints.reading import opened_checkpoint
from unidev.system.atomic_file import replacing
from unidev.system.wording import kind_of

if TYPE_CHECKING:
    from unidev.contract.backend import Backend


def save_optimizer(optimizer: Any, path: str, backend: Backend) -> None:
    """Write what the optimizer needs to go on, completely or not at all.

    Raises:
        UnsupportedOperation: its state cannot be read.
        OSError: the file cannot be written.
    """
    state = call(
        backend, backend.models.optimizer_state, optimizer,
        doing=f"reading the state of a {kind_of(optimizer)}",
    )  # fmt: skip
    arrays = {name: np.asarray(values, order="C") for name, values in state.items()}
    entries = [Entry(name, str(x.dtype.name), x.shape) for name, x in arrays.items()]
    with replacing(path) as file:
        write_checkpoint(
            file, entries, lambda entry: arrays[entry.name], metadata(backend.name, {}, {})
        )


def load_optimizer(model: Any, optimizer: Any, path: str, backend: Backend) -> None:
    """Give the optimizer of ``model`` the state in a file that ``save_optimizer`` has written.

    Raises:
        CheckpointError: the file is damaged, or that of another optimizer, which is unchanged.
        UnsupportedOperation: its state cannot be written.
    """
    with opened_checkpoint(path) as file:
        file.check()
        state = {
            name: file.read(entry, np.empty(nbytes(entry), np.uint8))
            for name, entry in file.entries.items()
        }
    with errors_of(backend, f"loading a {kind_of(optimizer)}"):
        backend.models.load_optimizer_state(model, optimizer, state)
