"""What the tracer reports beside the probe's examples: in printing, in backward, and not at all."""

from __future__ import annotations

import sys
import types

import paddle
import pytest
from tracing import GPU, GPU_1, TRACER, VALUES, on, originals, recorded, recorded_by

import unidev

__all__ = ["originals"]  # a fixture, of every test here


@pytest.mark.parametrize("show", [print, str, repr, "{}".format])
def test_printing_is_told_whatever_it_reads(show, capsys):
    transfers = recorded_by(show, on(GPU))  # Paddle 3.2 also reads whether there is a sign
    name = "Tensor.__str__" if show in (print, str, repr) else "Tensor.__format__"
    assert transfers[0] == (name, "gpu:0", "cpu:0", 24, (2, 3))
    assert {each[0] for each in transfers} == {name}


def test_a_gradient_that_comes_back_over_a_copy_is_told():
    x = on(GPU, stop_gradient=False)
    loss = (unidev.copy_to(x, GPU_1) ** 2).sum()
    assert recorded_by(loss.backward) == [("Tensor.backward", "gpu:1", "gpu:0", 24, (2, 3))]
    assert unidev.device_of(x.grad) is GPU
    loss = (unidev.copy_to(x, GPU_1) ** 2).sum()
    assert recorded_by(paddle.grad, loss, x)[0][0] == "paddle.grad"


def test_blind_spots_are_such():
    before = paddle.device.get_device()
    paddle.set_device("sim:1")
    try:
        with recorded() as transfers:
            batches = paddle.io.DataLoader([VALUES[0], VALUES[1]], batch_size=2)
            ((batch,),) = (batch if isinstance(batch, list) else [batch] for batch in batches)
        assert (transfers, unidev.device_of(batch)) == ([], GPU_1)  # "batches of a DataLoader"
    finally:
        paddle.set_device(before)
    x = on(GPU, stop_gradient=False)
    loss = (x * on(GPU_1)).sum()
    assert recorded_by(loss.backward) == []  # "what backward moves": x, saved on gpu:0, to gpu:1
    assert unidev.device_of(x.grad) is GPU_1
    assert recorded_by(on(GPU).numpy) == []  # "functions taken before the block"
    assert all(TRACER.blind_spots.values())


def test_a_module_that_is_imported_in_a_scope_keeps_no_replacement():
    original = paddle._C_ops.multiply
    late = types.ModuleType("paddle.imported_late")
    try:
        with recorded() as transfers:
            late.multiply = paddle._C_ops.multiply
            sys.modules[late.__name__] = late
            assert late.multiply is not original
        assert late.multiply is original
        with recorded() as transfers:
            late.multiply(on(GPU), on(GPU_1))
        assert transfers[-1][0] == "multiply of mixed operands"
        assert late.multiply is original
    finally:
        del sys.modules[late.__name__]
