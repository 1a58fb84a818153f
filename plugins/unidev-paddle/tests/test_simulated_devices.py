"""What a simulated device can do, as Paddle sees it."""

from __future__ import annotations

import numpy as np
import paddle
import pytest

import unidev

GPU = unidev.gpu(1)
MATRIX = np.arange(6, dtype=np.float32).reshape(2, 3)


def on_gpu(values=MATRIX):
    return paddle.to_tensor(values, place=GPU.native)


@pytest.mark.xfail(
    reason="what Paddle computes on the CPU for a device gets new memory: a view of whole rows "
    "(which strided_copy does not write back) then parts from its tensor"
)
def test_an_operation_in_place_on_whole_rows_reaches_the_tensor():
    x = on_gpu()
    x[0].add_(paddle.to_tensor(1.0, place=GPU.native))
    assert x.numpy().tolist() == [[1, 2, 3], [3, 4, 5]]


@pytest.mark.parametrize(
    ("said", "numbers"),
    [
        ("(ResourceExhausted) Fail to alloc memory of 4503599627370496 size, error", (2**52,)),
        (
            "ResourceExhaustedError: Out of memory error on GPU 0. Cannot allocate 3.500000GB "
            "memory on GPU 0, 15.0GB memory has been allocated and available memory is only "
            "1.250000GB.",
            (3.5 * 2**30, 1.25 * 2**30),
        ),
    ],
    ids=["host", "GPU"],
)
def test_the_numbers_in_paddles_words_are_read(said, numbers, monkeypatch):
    def fails(*_):
        raise RuntimeError(said)

    monkeypatch.setattr(unidev.active_backend(), "copy_to", fails)
    with pytest.raises(unidev.OutOfDeviceMemoryError) as caught:
        unidev.copy_to(paddle.ones([3]), GPU)
    error = caught.value
    assert (error.requested_bytes, error.free_bytes)[: len(numbers)] == numbers


class Tied(paddle.nn.Layer):
    """The weight of the embedding is also that of the output, as in language models."""

    def __init__(self):
        super().__init__()
        self.embedding = paddle.nn.Embedding(4, 2, padding_idx=3)
        self.embedding.weight.set_value(np.arange(8, dtype=np.float32).reshape(4, 2) / 8)

    def forward(self, rows):
        return paddle.matmul(self.embedding(rows), self.embedding.weight, transpose_y=True)


@pytest.mark.parametrize("index", ["int32", "int64"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_gradient_of_a_tied_embedding_is_on_its_device(dtype, index):
    found = []
    for device in ("cpu", "gpu:1"):
        model = Tied().to(dtype=dtype)
        unidev.place(model, device)
        rows = unidev.array([[1, 2, 1], [3, 0, 1]], dtype=index, device=device).T
        for _ in range(2):
            model(rows).sum().backward()
            assert unidev.device_of(model) is unidev.as_device(device)
        gradient = model.embedding.weight.grad
        assert gradient.dtype == getattr(paddle, dtype)
        found.append(gradient.numpy())
    assert np.allclose(*found)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_the_gradient_of_an_embedding_of_half_precision(dtype):
    weight = unidev.ones((4, 2), dtype=dtype, device=GPU)
    weight.stop_gradient = False
    rows = unidev.array([1, 2, 1], device=GPU)
    found = paddle.nn.functional.embedding(rows, weight).astype("float32") * 1.5
    found.sum().backward()
    assert unidev.device_of(weight.grad) is GPU
    assert weight.grad.astype("float32").numpy().tolist() == [[0, 0], [3, 3], [1.5, 1.5], [0, 0]]


def test_save_and_load(tmp_path):
    paddle.save({"x": on_gpu()}, str(tmp_path / "x"))
    assert paddle.load(str(tmp_path / "x"))["x"].numpy().tolist() == MATRIX.tolist()


@pytest.mark.xfail(
    raises=RuntimeError,
    reason="Layer.to moves the LSTM's unused dropout state, and it has no memory; place does not",
)
def test_layer_to_moves_an_lstm():
    network = paddle.nn.LSTM(3, 4)
    network.to(GPU.native_name)


def test_the_last_step_of_an_lstm_trains():
    lstm = unidev.place(paddle.nn.LSTM(4, 5), GPU)
    outputs, _ = lstm(unidev.copy_to(paddle.ones((2, 3, 4)), GPU))
    outputs[:, -1].sum().backward()
    assert all(unidev.device_of(x.grad) is GPU for x in lstm.parameters())


@pytest.mark.parametrize(
    ("dtype", "value"),
    [("bool", True), ("uint8", 200), ("int8", -3), ("int16", -300), ("int32", 2**30),
     ("int64", 2**60), ("float16", 0.1), ("bfloat16", 0.1), ("float32", float("inf")),
     ("float64", 0.1), ("complex64", 2.5), ("complex128", -0.5)],
)  # fmt: skip
@pytest.mark.parametrize("part", [lambda x: x, lambda x: x[:, ::2], lambda x: x[:0]])
def test_filling_on_a_device_is_filling_on_the_cpu(dtype, value, part):
    on_cpu = paddle.zeros((3, 4), dtype=dtype)
    there = unidev.copy_to(on_cpu, GPU)
    part(on_cpu).fill_(value)
    part(there).fill_(value)
    assert unidev.device_of(there) is GPU
    back = unidev.copy_to(there, "cpu")
    assert back.view(paddle.uint8).numpy().tolist() == on_cpu.view(paddle.uint8).numpy().tolist()
