"""MXNet's transfers between devices, seen where its Python calls its C library.

All that MXNet's Python does to data goes through ``mxnet.base._LIB``: reading into NumPy, filling
from it, operators, the backward pass. So a few of its C functions are replaced while a scope is
open in any thread, not the dozens of methods that lead there (``asnumpy``, ``item``, ``print``,
metrics, …). The user's call is read off the stack, and only when something moves.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

import mxnet as mx  # type: ignore[import-untyped]
from mxnet.ndarray import _internal  # type: ignore[import-untyped]

from unidev.contract import Tracer
from unidev_mxnet.tracer.patches import MxnetPatches
from unidev_mxnet.tracer.recording import MxnetRecording

if TYPE_CHECKING:
    from unidev.contract import Backend

_BLIND_SPOTS = {
    "a KVStore, and so a gluon.Trainer of several devices": "it sums gradients and distributes "
    "weights in C++, on a device that it chooses itself",
    "mx.operator.Custom and autograd.Function in backward": "MXNet calls their Python in "
    "threads of its own",
    "gradients of what was computed before the trace began": "the backward pass runs in C++; where "
    "its arrays are is recorded during the forward pass",
    "group2ctx of a bound Symbol or Module": "its executor copies in C++",
    "sizes of results that depend on values (x[x > 0], nonzero, unique)": "on a GPU an operator "
    "reads a few bytes in C++, and waits",
    "loading and unpickling arrays of a real GPU": "MXNet puts them on that GPU again in C++",
    "pointers and DLPack": "reading from an array's address does not call MXNet",
    "how long a copy to another device takes": "MXNet queues it and returns: the seconds are those "
    "of queueing, and whatever reads the result waits for the rest",
}

_BLIND_SPOTS_OF_CYTHON = {
    "operators and copies": "this build of MXNet calls them by Cython; MXNET_ENABLE_CYTHON=0 makes "
    "it call them by ctypes, as its packages do"
}


class MxnetTracer(Tracer):
    """A read waits, so its seconds are real; those of a copy are a declared blind spot.

    Waiting for each copy would make them real, but change the program's behaviour.
    """

    blind_spots = _BLIND_SPOTS
    gpu_queries = MappingProxyType(
        {"mxnet.context.num_gpus": mx.context, "mxnet.util.get_gpu_count": mx.util}
    )

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        if _internal._imperative_invoke.__module__ != "mxnet._ctypes.ndarray":
            self.blind_spots = {**_BLIND_SPOTS, **_BLIND_SPOTS_OF_CYTHON}
        self.recording = MxnetRecording()
        self.patches = MxnetPatches(backend, self.recording)
