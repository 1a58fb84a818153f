"""What a tracer tells, written down."""

import contextlib

import unidev

TRACER = unidev.active_backend().tracer


def plain(moved):
    return (moved.operation, str(moved.source), str(moved.target), moved.nbytes, moved.shape)


@contextlib.contextmanager
def telling():
    """A list of what is told in the block; each is ended once, with what ``begin`` gave."""
    begun, ended = [], []

    def begin(moved):
        begun.append(plain(moved))
        return len(begun)

    with TRACER.watch(begin, ended.append):
        yield begun
    assert sorted(ended) == list(range(1, len(begun) + 1))


def told_by(function, *arguments):
    with telling() as begun:
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
