"""Ctrl-C at any point while a Paddle model is placed."""

from __future__ import annotations

import signal
import sys

import paddle

import unidev

FILES = (
    "unidev/contract/models.py",
    "unidev_paddle/models/__init__.py",
    "unidev_paddle/models/swap.py",
)


class Interrupter:
    """Ctrl-C before the ``number``-th line that runs in these files, and never again."""

    def __init__(self, number):
        self.left = number

    def __call__(self, frame, event, argument):
        if not frame.f_code.co_filename.endswith(FILES):
            return None
        if event == "line":
            self.left -= 1
            if self.left == 0:
                signal.raise_signal(signal.SIGINT)
        return self


def made():
    layer = paddle.nn.Linear(2, 3).to("cpu")
    layer.register_buffer("rows", layer.weight.detach()[1:])
    layer(unidev.ones((2, 2))).sum().backward()
    return layer


def tensors(layer):
    return [layer.weight, layer.bias, layer.rows, layer.weight.grad, layer.bias.grad]


def interrupted(number):
    layer = made()
    before = [(x.numpy().tolist(), x.data_ptr()) for x in tensors(layer)]
    sys.settrace(Interrupter(number))
    try:
        unidev.place(layer, "gpu:1")
    except KeyboardInterrupt:
        was_interrupted = True
    else:
        was_interrupted = False
    finally:
        sys.settrace(None)
    after = [(x.numpy().tolist(), x.data_ptr()) for x in tensors(layer)]
    found = {unidev.device_of(x) for x in tensors(layer)}
    assert len(found) == 1
    assert found == {unidev.gpu(1)} or after == before
    assert was_interrupted or found == {unidev.gpu(1)}
    assert unidev.shares_memory(layer.rows, layer.weight)
    assert [values for values, _ in after] == [values for values, _ in before]
    return was_interrupted


def test_ctrl_c_at_any_line_leaves_the_model_whole():
    count = 1
    while interrupted(count):
        count += 1
    assert count > 100
