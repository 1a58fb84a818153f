"""What the tests of checkpoints share: models of NumPy, and what is said of a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import safetensors

import unidev
from unidev.backends.loading import load_backend

if TYPE_CHECKING:
    from pathlib import Path


def sample(seed: int = 0) -> dict[str, Any]:
    draw = np.random.default_rng(seed)
    return {
        "encoder": [draw.random((3, 2), np.float32), draw.random(3, np.float32)],
        "count": np.array(seed),
    }


def values(model: Any) -> dict[str, bytes]:
    return {
        name: unidev.to_numpy(x).tobytes()
        for name, x in load_backend("numpy").models.tensors(model).items()
    }


def metadata_of(file: Path) -> dict[str, str]:
    with safetensors.safe_open(file, framework="numpy") as opened:
        return dict(opened.metadata())


def problems_of(model: Any, file: Path) -> list[str]:
    before = values(model)
    with pytest.raises(unidev.CheckpointError) as caught:
        unidev.load_parameters(model, file)
    assert values(model) == before
    return list(caught.value.problems)
