"""Functions that write down what the tracer records."""

from __future__ import annotations

import sys
from contextlib import contextmanager

import numpy as np
import paddle
import pytest

import unidev

TRACER = unidev.active_backend().tracer
CPU, GPU, GPU_1 = unidev.cpu(), unidev.gpu(0), unidev.gpu(1)
VALUES = np.arange(6, dtype=np.float32).reshape(2, 3)


class Forbidden(RuntimeError):
    """What a guard might raise."""


def on(device, values=VALUES, **options):
    return paddle.to_tensor(values, place=device.native, **options)


def plain(transfer):
    return (
        transfer.operation, str(transfer.source), str(transfer.target), transfer.nbytes,
        transfer.shape,
    )  # fmt: skip


@contextmanager
def recorded():
    """A list of all that is recorded in the block."""
    transfers = []
    with TRACER.watch(lambda moved: transfers.append(plain(moved)), lambda _: None):
        yield transfers


def recorded_by(function, *arguments):
    with recorded() as transfers:
        function(*arguments)
    return transfers


@contextmanager
def forbidden():
    def begin(transfer):
        raise Forbidden(transfer.operation)

    with TRACER.watch(begin, lambda _: None):
        yield


def attributes_of_paddle():
    """Every function in Paddle's modules, and in the classes that Python reaches C++ by."""
    modules = [
        module
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] in ("paddle", "unidev_paddle") and module is not None
    ]
    classes = [paddle.Tensor, paddle.base.framework.EagerParamBase, paddle.base.core.DenseTensor]
    return {
        (repr(owner), name): value
        for owner in modules + classes
        for name, value in vars(owner).items()
        if callable(value)
    }


def changed(before):
    after = attributes_of_paddle()
    return {name for name in before if after.get(name) is not before[name]}


@pytest.fixture(autouse=True)
def originals():
    """Whatever a test does, everything is the original object again."""
    recorded_by(lambda: None)  # has the tracer imported
    before = attributes_of_paddle()
    yield before
    assert changed(before) == set()
