"""``unidev.nn`` gives torch's own layers, which torch's own tools understand."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
import torch
from torch import nn

import unidev


def lenet() -> nn.Module:
    unidev.seed(1)
    layers = unidev.nn
    model: nn.Module = layers.sequential(
        layers.conv2d(1, 4, (3, 2), stride=(2, 1), padding=(1, 0)),
        layers.batch_norm(4),
        layers.relu(),
        layers.max_pool2d(2),
        layers.flatten(),
        layers.dropout(0.5),
        layers.dense(4 * 2 * 3, 3, bias=False),
        layers.tanh(),
    )
    return model


IMAGES = torch.linspace(-1, 1, 2 * 64).reshape(2, 1, 8, 8)


def test_layers_are_torchs_own() -> None:
    norm = nn.modules.batchnorm._BatchNorm
    kinds = nn.Conv2d, norm, nn.ReLU, nn.MaxPool2d, nn.Flatten, nn.Dropout, nn.Linear, nn.Tanh
    assert list(map(isinstance, lenet(), kinds)) == [True] * 8


def test_making_layers_draws_nothing_from_torchs_generator() -> None:
    before = torch.get_rng_state()
    lenet()
    assert torch.equal(torch.get_rng_state(), before)


def test_layers_are_float32_on_the_cpu_whatever_torchs_defaults_are() -> None:
    torch.set_default_dtype(torch.float64)
    try:
        with torch.device("sim:1"):
            model = lenet()
    finally:
        torch.set_default_dtype(torch.float32)
    assert {(x.dtype, x.device.type) for x in model.state_dict().values()} == {
        (torch.float32, "cpu")
    }


def test_weights_are_no_views_of_what_they_were_made_of() -> None:
    weight = np.ones((2, 3), dtype="float32")
    layer = unidev.active_backend().layers.dense(weight, None)
    weight[:] = 0
    assert layer.weight.tolist() == [[1.0] * 3] * 2


def test_batch_norm_of_three_axes_is_refused() -> None:
    with pytest.raises(ValueError, match=r"\(6, 4, 3\)"):
        unidev.nn.batch_norm(4)(torch.randn(6, 4, 3))


def test_the_state_has_the_portable_names_and_no_count_of_batches() -> None:
    expected = [
        "0.weight", "0.bias", "1.weight", "1.bias", "1.running_mean", "1.running_var", "6.weight",
    ]  # fmt: skip
    model = lenet()
    assert list(model.state_dict()) == expected
    assert list(unidev.active_backend().models.stored(model)) == expected


def test_torch_loads_a_state_that_knows_no_versions() -> None:
    model, other = lenet(), lenet()
    nn.init.ones_(model[6].weight)
    other.load_state_dict(dict(model.state_dict()))  # a plain dict, as from safetensors
    assert torch.equal(other[6].weight, model[6].weight)
    assert list(other.state_dict()) == list(model.state_dict())


def test_a_net_can_be_pickled_and_scripted() -> None:
    model = unidev.nn.eval_mode(lenet())
    expected = model(IMAGES)
    assert torch.equal(pickle.loads(pickle.dumps(model))(IMAGES), expected)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        assert torch.equal(torch.jit.trace(model, IMAGES)(IMAGES), expected)


def test_values_that_are_read_only_strided_or_of_no_axes_are_written() -> None:
    models = unidev.active_backend().models
    values = np.arange(12.0).reshape(3, 4)[::-1, ::2]
    values.flags.writeable = False
    for native in ("cpu", "sim:1"):
        x = torch.zeros(3, 2, dtype=torch.float64, device=native, requires_grad=True)
        models.write(x, values)
        assert x.tolist() == values.tolist()
        assert x.is_leaf
        models.write(zero := torch.zeros((), device=native), np.float32(3).reshape(()))
        assert zero.item() == 3.0
        models.write(torch.zeros(0, 2, device=native), np.zeros((0, 2), "float32"))


def test_reading_on_the_cpu_copies_nothing() -> None:
    x = torch.randn(3)
    assert unidev.active_backend().models.read(x).ctypes.data == x.data_ptr()


@pytest.mark.parametrize("device", ["cpu", "gpu:1"])
def test_a_label_that_torch_leaves_out_by_default_is_out_of_range(device: str) -> None:
    logits, labels = unidev.ones((2, 3), device=device), unidev.array([0, -100], device=device)
    with pytest.raises(unidev.FrameworkError, match="Target -100 is out of bounds"):
        unidev.nn.functional.softmax_cross_entropy(logits, labels)
