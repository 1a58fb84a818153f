"""Recordings of what the tracer reports, and a tensor to move."""

import contextlib

import numpy as np

import unidev

TRACER = unidev.active_backend().tracer


@contextlib.contextmanager
def recording():
    """A list of what moves in the block; each is ended once, with what ``begin`` gave."""
    begun, ended = [], []

    def begin(moved):
        ways = map(str, (moved.source, moved.target))
        begun.append((moved.operation, *ways, moved.nbytes, moved.shape))
        return len(begun)

    with TRACER.watch(begin, ended.append):
        yield begun
    assert sorted(ended) == list(range(1, len(begun) + 1))


class Forbidden(RuntimeError):
    """What a guard might raise."""


@contextlib.contextmanager
def forbidding():
    def begin(moved):
        raise Forbidden(moved.operation)

    with TRACER.watch(begin, lambda _: None):
        yield


def matrix(device="gpu:0"):
    """Six floats: 24 bytes."""
    return unidev.array(np.arange(6, dtype=np.float32).reshape(2, 3), device=device)
