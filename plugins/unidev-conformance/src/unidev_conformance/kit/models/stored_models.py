"""Shared by the checks of checkpoints: a path, and the file as safetensors reads it."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import unidev

if TYPE_CHECKING:
    from collections.abc import Iterator

    from unidev_conformance.kit.workbench import Workbench

    Array = np.ndarray[Any, Any]

HEADER_BYTES = 4096
"""More than the header of so few tensors takes."""


@contextmanager
def a_folder() -> Iterator[Path]:
    """A temporary folder."""
    with tempfile.TemporaryDirectory(prefix="unidev-conformance-") as folder:
        yield Path(folder)


@contextmanager
def a_path() -> Iterator[Path]:
    """That of a file to write, in a temporary folder of its own."""
    with a_folder() as folder:
        yield folder / "model.safetensors"


def entries(path: Path) -> dict[str, Array]:
    """The file's tensors, as safetensors itself reads them."""
    from safetensors.numpy import load_file

    return load_file(path)


def values_of(bench: Workbench, model: Any) -> dict[str, Array]:
    """The values that a checkpoint would now store, in the file's layout, under every name."""
    found = {}
    for name, (x, axes) in bench.backend.models.stored(model).items():
        values = unidev.to_numpy(x)
        found[name] = values if axes is None else np.ascontiguousarray(values.transpose(axes))
    return found


def check_values(bench: Workbench, model: Any, expected: dict[str, Array], where: str) -> None:
    """The model has exactly these values."""
    found = values_of(bench, model)
    assert set(found) == set(expected), f"{where}: it stores {sorted(found)}"
    other = [n for n, x in expected.items() if found[n].tobytes() != x.tobytes()]
    assert not other, f"{where}: wrong values in {other}"
