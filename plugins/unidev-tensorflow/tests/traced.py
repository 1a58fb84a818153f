"""Recordings of what the tracer reports, and tensors to move."""

import contextlib

import numpy as np
import tensorflow as tf

import unidev

TRACER = unidev.active_backend().tracer


def plain(moved):
    return (moved.operation, str(moved.source), str(moved.target), moved.nbytes, moved.shape)


@contextlib.contextmanager
def recording():
    """A list of what moves in the block; each is ended once, with what ``begin`` gave."""
    begun, ended = [], []

    def begin(moved):
        begun.append(plain(moved))
        return len(begun)

    with TRACER.watch(begin, ended.append):
        yield begun
    assert sorted(ended) == list(range(1, len(begun) + 1))


def recorded(function, *arguments):
    with recording() as begun:
        function(*arguments)
    return begun


class Forbidden(RuntimeError):
    """What a guard might raise."""


@contextlib.contextmanager
def forbidding():
    def begin(moved):
        raise Forbidden(moved.operation)

    with TRACER.watch(begin, lambda _: None):
        yield


VALUES = np.arange(6, dtype=np.float32).reshape(2, 3)


def on(device, values=VALUES):
    return unidev.array(values, device=device)


def matrix(device="gpu:0"):
    """Six floats: 24 bytes."""
    return on(device)


def number(device="gpu:0"):
    """One float: 4 bytes."""
    return on(device, np.float32(2.0))


def whole(device="gpu:0"):
    """One int64: 8 bytes."""
    return on(device, np.int64(1))


def variable(device="gpu:0"):
    with unidev.as_device(device):
        return tf.Variable(VALUES)


def reading(operation, nbytes=24, shape=(2, 3)):
    return [(operation, "gpu:0", "cpu:0", nbytes, shape)]


def sending(operation, nbytes=24, shape=(2, 3)):
    return [(operation, "cpu:0", "gpu:0", nbytes, shape)]


def in_scope(function, *arguments, device="gpu:0"):
    with unidev.as_device(device):
        return function(*arguments)
