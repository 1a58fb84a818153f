"""Placing Paddle's layers: what only Paddle has, or does in its own way."""

from __future__ import annotations

import gc

import numpy as np
import paddle
import pytest

import unidev
from unidev.backends.loading import load_backend

GPU = unidev.gpu(1)
BACKEND = load_backend("paddle")


def linear():
    """A layer on the CPU; Paddle makes it on its default device, which is simulated here."""
    return paddle.nn.Linear(4, 3).to("cpu")


def ones(device="cpu"):
    return unidev.ones((2, 4), device=device)


def devices(layer):
    return {unidev.device_of(x) for x in [*layer.parameters(), *layer.buffers()]}


def test_parameters_keep_what_paddle_knows_them_by():
    layer = linear()
    layer.bias.stop_gradient = True
    layer.weight.optimize_attr["learning_rate"] = 0.5
    names = [x.name for x in layer.parameters()]
    before = list(layer.parameters())
    unidev.place(layer, GPU)
    assert all(x is old for x, old in zip(layer.parameters(), before, strict=True))
    assert [x.name for x in layer.parameters()] == names
    assert [x.stop_gradient for x in layer.parameters()] == [False, True]
    assert layer.weight.optimize_attr == {"learning_rate": 0.5}
    assert devices(layer) == {GPU}


def test_a_gradient_somebody_holds_moves_as_the_parameters_own():
    layer = linear()
    layer(ones()).sum().backward()
    held = layer.weight.grad
    unidev.place(layer, GPU)
    assert unidev.device_of(layer.weight.grad) is unidev.device_of(held) is GPU
    layer(ones(GPU)).sum().backward()
    assert layer.weight.grad.numpy().tolist() == [[4.0] * 3] * 4


def test_a_sparse_gradient_moves():
    layer = paddle.nn.Embedding(5, 3, sparse=True).to("cpu")
    layer(unidev.array([1, 2])).sum().backward()
    unidev.place(layer, GPU)
    slope = layer.weight._grad_ivar()
    assert slope.is_selected_rows()
    assert unidev.device_of(slope) is GPU
    assert unidev.parameters(layer)["weight"] is layer.weight


def test_a_sparse_buffer_is_refused_by_name_and_its_dense_one_is_saved(tmp_path):
    model, file = paddle.nn.Layer(), tmp_path / "model.safetensors"
    model.register_buffer("odd", paddle.sparse.sparse_coo_tensor([[0, 1], [0, 1]], [1.0, 2.0]))
    with pytest.raises(unidev.UnsupportedOperation, match="odd"):
        unidev.place(model, GPU)
    with pytest.raises(unidev.UnsupportedOperation, match=r"'odd'.*keep x\.to_dense\(\)"):
        unidev.save_parameters(model, file)
    model.odd = model.odd.to_dense()
    unidev.save_parameters(model, file)


def test_what_is_tied_by_its_memory_stays_tied():
    layer = linear()
    layer.register_buffer("rows", layer.weight.detach()[1:])
    layer.register_buffer("same", layer.bias.detach())
    layer.register_buffer("none", unidev.zeros(0))
    layer.register_buffer("same_none", layer.none.detach())
    unidev.place(layer, GPU)
    assert unidev.shares_memory(layer.rows, layer.weight)
    assert unidev.shares_memory(layer.same, layer.bias)
    assert layer.rows.numpy().tolist() == layer.weight.numpy()[1:].tolist()
    assert devices(layer) == {GPU}


def test_a_slice_of_a_large_tensor_moves_without_the_rest_of_it():
    layer = paddle.nn.Layer()
    layer.register_buffer("rows", unidev.zeros((1000, 1000))[10:11])
    gc.collect()
    before = unidev.memory(GPU).used_bytes
    unidev.place(layer, GPU)
    gc.collect()
    assert unidev.memory(GPU).used_bytes - before <= 4096


def test_weights_of_an_lstm_stay_slices_of_one_tensor():
    network = paddle.nn.LSTM(3, 4)  # whose state of dropout has no memory yet
    unidev.place(network, "cpu")
    offsets = [x.offset for x in network.parameters()]
    values = [x.numpy().tolist() for x in network.parameters()]
    unidev.place(network, GPU)
    (flat,) = network._flat_weight
    for x in network.parameters():
        assert unidev.shares_memory(x, flat)
        assert unidev.device_of(x) is GPU
    unidev.place(network, "cpu")
    assert [x.offset for x in network.parameters()] == offsets
    assert [x.numpy().tolist() for x in network.parameters()] == values


@pytest.mark.parametrize("kind", [paddle.nn.LSTM, paddle.nn.GRU, paddle.nn.SimpleRNN])
def test_recurrent_layers_compute_there_what_they_compute_on_the_cpu(kind):
    network = unidev.place(kind(3, 4, num_layers=2, direction="bidirect"), "cpu")

    def loss_of(network):
        device = unidev.device_of(network)
        x = unidev.array(np.linspace(-1, 1, 30).reshape(2, 5, 3).astype("float32"), device=device)
        first = unidev.zeros((4, 2, 4), device=device)  # else Paddle makes it on its default device
        return (network(x, (first, first) if kind is paddle.nn.LSTM else first)[0] ** 2).mean()

    expected, slopes = unidev.value_and_grad(loss_of)(network)
    found, others = unidev.value_and_grad(loss_of)(unidev.place(network, GPU))
    assert unidev.device_of(found) is GPU
    assert found.item() == expected.item()
    for name, slope in slopes.items():
        assert unidev.device_of(others[name]) is GPU
        assert others[name].numpy().tolist() == slope.numpy().tolist()


def test_a_plain_attribute_is_a_buffer_and_moves():
    layer = linear()
    layer.scale = unidev.ones(3)
    unidev.place(layer, GPU)
    assert unidev.device_of(layer.scale) is GPU
    assert "scale" not in BACKEND.models.stored(layer)


@pytest.mark.parametrize("norm", [paddle.nn.utils.weight_norm, paddle.nn.utils.spectral_norm])
def test_weights_that_are_computed_from_others_follow_them(norm):
    layer = unidev.place(norm(linear()), "cpu")
    layer.eval()
    before = layer(ones()).numpy()
    unidev.place(layer, GPU)
    after = layer(ones(GPU))
    assert unidev.device_of(after) is GPU
    assert after.numpy().tolist() == before.tolist()


def test_a_graph_made_before_the_move_gives_gradients_there():
    layer = linear()
    loss = (layer(ones()) ** 2).sum()
    expected = paddle.grad(loss, layer.weight, retain_graph=True)[0].numpy()
    unidev.place(layer, GPU)
    loss.backward()
    assert unidev.device_of(layer.weight.grad) is GPU
    assert np.allclose(layer.weight.grad.numpy(), expected)


def test_a_layer_compiled_before_the_move_computes_there():
    layer = paddle.jit.to_static(linear())
    before = layer(ones()).numpy()
    unidev.place(layer, GPU)
    after = layer(ones(GPU))
    assert unidev.device_of(after) is GPU
    assert np.allclose(after.numpy(), before)


@pytest.mark.parametrize("device", ["cpu", "gpu:1"])
def test_loading_keeps_the_memory_and_is_no_secret_to_a_graph(device, tmp_path):
    layer, other = unidev.place(linear(), device), linear()
    unidev.save_parameters(other, tmp_path / "other")
    address, loss = layer.weight.data_ptr(), (layer.weight**2).sum()
    unidev.load_parameters(layer, tmp_path / "other")
    assert layer.weight.data_ptr() == address
    assert layer.weight.numpy().tolist() == other.weight.numpy().tolist()
    with pytest.raises(RuntimeError, match="inplace"):
        loss.backward()


def test_a_view_of_columns_is_written_where_it_is():
    x = unidev.zeros((2, 4))
    BACKEND.models.write(x[:, 1:3], np.ones((2, 2), np.float32))
    assert x.numpy().tolist() == [[0, 1, 1, 0]] * 2


def test_names_are_those_of_paddle():
    network = paddle.nn.TransformerEncoderLayer(4, 2, 8)
    assert list(unidev.parameters(network)) == [name for name, _ in network.named_parameters()]
    assert list(BACKEND.models.stored(network)) == list(network.state_dict())
