"""What MXNet moves between devices, seen where its Python calls its C library.

All that MXNet's Python does to data goes through ``mxnet.base._LIB``: reading into NumPy, filling
from it, operators, the backward pass. So a few of its C functions are replaced while any thread
watches, and not the dozens of methods that lead there (``asnumpy``, ``item``, ``print``, metrics,
…). What the user has called is read off the stack, and only where something moves.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mxnet.base import _LIB  # type: ignore[import-untyped]
from mxnet.ndarray import _internal  # type: ignore[import-untyped]

from unidev.contract import Tracer
from unidev_mxnet.tracer.calls import TracedCalls
from unidev_mxnet.tracer.thread import thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from unidev import Backend
    from unidev.contract import PlannedTransfer

_BLIND_SPOTS = {
    "a KVStore, and so a gluon.Trainer of several devices": "it sums gradients and hands weights "
    "out in C++, on a device that it chooses itself",
    "mx.operator.Custom and autograd.Function going backward": "MXNet calls their Python in "
    "threads of its own",
    "gradients of what was computed before the trace began": "the backward pass runs in C++; where "
    "its arrays are is noted as the forward pass goes",
    "group2ctx of a bound Symbol or Module": "its executor copies in C++",
    "sizes of results that depend on values (x[x > 0], nonzero, unique)": "on a GPU an operator "
    "reads a few bytes in C++, and waits",
    "pointers and DLPack": "who has an array's address needs no call of MXNet's",
    "how long a copy to another device takes": "MXNet queues it and returns: its seconds are those "
    "of queueing, and whatever reads the result waits for the rest",
}

_BLIND_SPOTS_OF_CYTHON = {
    "operators and copies": "this build of MXNet calls them by Cython; MXNET_ENABLE_CYTHON=0 makes "
    "it call them by ctypes, as its packages do",
}

_lock = threading.Lock()
_users = 0
_originals: dict[str, Any] = {}


class MxnetTracer(Tracer):
    """A read waits, so its seconds are real; those of a copy are told as a blind spot.

    Waiting for each copy would make them real, and the program another one.
    """

    blind_spots = _BLIND_SPOTS

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        if _internal._imperative_invoke.__module__ != "mxnet._ctypes.ndarray":
            self.blind_spots = {**_BLIND_SPOTS, **_BLIND_SPOTS_OF_CYTHON}
        self._calls = TracedCalls(backend)

    @contextmanager
    def watch(
        self, begin: Callable[[PlannedTransfer], Any], end: Callable[[Any], None]
    ) -> Iterator[None]:
        """See ``Tracer``; what other threads call goes straight through."""
        scope = (begin, end)
        self._patch()
        thread.scopes.append(scope)
        try:
            yield
        finally:
            thread.scopes.remove(scope)
            if not thread.scopes:
                thread.gradients.clear()
            _unpatch()

    def _patch(self) -> None:
        global _users  # noqa: PLW0603  the library is one for all threads
        with _lock:
            if not _users:
                stand_ins = self._calls.by_name()
                _originals.update({name: getattr(_LIB, name) for name in stand_ins})
                for name, stand_in in stand_ins.items():
                    setattr(_LIB, name, stand_in(_originals[name]))
            _users += 1


def _unpatch() -> None:
    global _users  # noqa: PLW0603  as above
    with _lock:
        _users -= 1
        if _users:
            return
        for name, original in _originals.items():
            setattr(_LIB, name, original)  # where ctypes itself keeps what was asked for once
        _originals.clear()
