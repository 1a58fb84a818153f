"""What the tests of the tracer share: a scope that records transfers, and arrays."""

import contextlib

import mxnet as mx
import pytest
from mxnet.base import _LIB

import unidev

backend = unidev.active_backend()
HERE, THERE = unidev.gpu(0).native, unidev.gpu(1).native

FUNCTIONS = (
    "MXAutogradBackwardEx",
    "MXImperativeInvokeEx",
    "MXKVStorePush",
    "MXKVStorePushEx",
    "MXKVStorePushPull",
    "MXKVStorePushPullEx",
    "MXNDArrayGetSharedMemHandle",
    "MXNDArraySave",
    "MXNDArraySaveRawBytes",
    "MXNDArraySyncCopyFromCPU",
    "MXNDArraySyncCopyFromNDArray",
    "MXNDArraySyncCopyToCPU",
    "MXNetFuncCall",
)


MARKS = [
    pytest.mark.usefixtures("clean_library"),
    # MXNet deprecates as_in_context, which it calls itself.
    pytest.mark.filterwarnings("ignore:ndarray.as_in_context:DeprecationWarning"),
]
"""For every test of the tracer."""


@contextlib.contextmanager
def clean():
    """NumPy's semantics; and afterwards MXNet's library has its own functions again."""
    before = [getattr(_LIB, name) for name in FUNCTIONS]
    with mx.util.np_shape(True), mx.util.np_array(True):
        yield
    assert all(getattr(_LIB, name) is was for name, was in zip(FUNCTIONS, before, strict=True))


class Recorded(list):
    """Transfers, as (operation, source, target, bytes, shape), while it is open."""

    def __init__(self, refuse=lambda transfer: False):
        super().__init__()
        self.ended = []
        self.refuse = refuse
        self.scope = backend.tracer.watch(self.begin, self.ended.append)

    def begin(self, transfer):
        operation, source, target, nbytes, shape = transfer
        if self.refuse(transfer):
            raise Refused
        self.append((operation, str(source), str(target), nbytes, shape))
        return len(self)

    def __enter__(self):
        self.scope.__enter__()
        return self

    def __exit__(self, *exc_info):
        self.scope.__exit__(*exc_info)


class Refused(Exception):
    pass


def refusing():
    return Recorded(lambda transfer: True)


def recorded(call):
    with Recorded() as found:
        call()
    assert sorted(found.ended) == list(range(1, len(found) + 1))
    return list(found)


def square(context=HERE):
    """Two by two, of float32: 16 bytes."""
    return mx.np.array([[1.0, 2.0], [3.0, 4.0]], ctx=context)


def one(context=HERE):
    return mx.np.array(3.0, ctx=context)


def leaf(context=HERE):
    x = square(context)
    x.attach_grad()
    return x
