"""NumPy's models: what they hold, how it moves, what a checkpoint has of it."""

from __future__ import annotations

import copy
import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import unidev
from unidev import nn
from unidev.backends.loading import load_backend

if TYPE_CHECKING:
    from unidev.backends.numpy_backend.models import NumpyModels


@pytest.fixture
def models(two_gpus: None) -> NumpyModels:
    unidev.seed(0)
    return load_backend("numpy").models  # type: ignore[return-value]


def test_two_arrays_of_one_name_are_refused(models: NumpyModels) -> None:
    model = {1: unidev.zeros(1), "1": unidev.ones(1)}
    for ask in (models.tensors, models.parameters, models.stored):
        with pytest.raises(
            unidev.InvalidDataError, match="two arrays of this model have the name '1'"
        ):
            ask(model)


def test_each_array_is_one_part_wherever_it_stands(models: NumpyModels) -> None:
    tied, shared = unidev.zeros(2), nn.dense(2, 2)
    parts = models.parts([tied, {"again": tied}, unidev.ones(1)], None)
    assert [len(part.places) for part in parts] == [2, 1]
    assert len(models.parts(nn.sequential(shared, shared), None)) == 2


def test_reading_takes_no_copy_of_numpys_own_arrays_and_refuses_what_has_no_values(
    models: NumpyModels,
) -> None:
    for device in ("cpu", "gpu:1"):
        x = unidev.ones((2, 3), device=device)
        assert type(models.read(x.T)) is np.ndarray
        assert unidev.shares_memory(models.read(x.T), x)
    with pytest.raises(unidev.UnsupportedDtypeError):
        models.read(np.array([object()]))
    with pytest.raises(unidev.UnidevError):
        models.read(np.ma.masked_array([1, 2], mask=[True, False]))


@pytest.mark.parametrize("device", ["cpu", "gpu:1"])
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_copy_of_a_model_is_whole_apart_and_there(
    models: NumpyModels, device: str, copied: Any
) -> None:
    shared = nn.dense(2, 2)
    model = nn.eval_mode(nn.sequential(shared, nn.batch_norm(2), nn.dropout(0.5), shared))
    unidev.place(model, device)
    other = copied(model)
    assert unidev.device_of(other) is unidev.as_device(device)
    assert other.layers[0] is other.layers[3] is not shared
    x = unidev.rand((3, 2), device=device)
    assert unidev.to_numpy(other(x)).tobytes() == unidev.to_numpy(model(x)).tobytes()
    pairs = zip(models.tensors(model).values(), models.tensors(other).values(), strict=True)
    assert not any(unidev.shares_memory(a, b) for a, b in pairs)
    assert list(models.parameters(other)) == list(models.parameters(model))
