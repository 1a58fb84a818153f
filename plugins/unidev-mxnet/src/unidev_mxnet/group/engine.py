"""MXNet's ``dist_sync`` kvstore: a server adds what the workers send, and sends back the sum."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

import mxnet as mx  # type: ignore[import-untyped]
import numpy as np
from mxnet.base import _LIB, check_call  # type: ignore[import-untyped]

from unidev.contract import GroupEngine
from unidev_mxnet.group import MOST_WORKERS
from unidev_mxnet.native_calls import numpy_shapes, reshaped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unidev.contract import Device, Rendezvous, Tensor


_SMALL = frozenset({"bool", "int8", "uint8", "float16", "float32"})
"""Dtypes of which float32 holds all values."""
_LARGE = frozenset({"int32", "int64", "float64"})
"""These travel in words of 16 bits, each as a number.

The server adds float32 alone: an integer ends it, and float64 it adds in one process as such and in
the next as float32 (MXNet 1.9.1; seen to change with the folder in which the server was started).
"""
_MOVED = _SMALL | _LARGE
_NUMBERS = _MOVED - {"bool"}

_MOST = 2**20
"""Elements under one key: the server keeps the memory of every key that it has seen."""


class MxnetEngine(GroupEngine):
    """The server adds in order of arrival, which does not change the sum of two numbers.

    So it adds float32 of two workers. Everything else of theirs is gathered. To gather, each sends
    -0.0 in the places of the others, which changes no number. Of more workers each would send and
    receive what all have, by the one server: they exchange by unidev's own means.
    """

    carries = MappingProxyType(
        {
            "sum": _NUMBERS - {"float16"}, "min": _NUMBERS, "max": _NUMBERS,
            "broadcast": _MOVED, "gather": _MOVED,
        }
    )  # fmt: skip
    gathered = MappingProxyType({"sum": _NUMBERS - {"float32"}, "min": _NUMBERS, "max": _NUMBERS})

    def join(self, rank: int, rendezvous: Rendezvous, device: Device) -> None:  # noqa: ARG002
        """Create the kvstore; the ranks that MXNet gives it are not those of the run."""
        if rendezvous.size > MOST_WORKERS:
            self.carries = MappingProxyType({})
            return
        self._rank, self._size = rank, rendezvous.size
        self._known: set[str] = set()
        self._store = mx.kv.create("dist_sync")
        # Else a worker that ends, by an error, say, would wait for the others to end as well.
        check_call(_LIB.MXKVStoreSetBarrierBeforeExit(self._store.handle, 0))

    def all_reduce(self, flat: Tensor, op: str) -> Tensor:  # noqa: ARG002  sums alone
        """In place, for float32 sums over two workers; waits."""
        with numpy_shapes():
            self._add(reshaped(flat, (-1,)).as_nd_ndarray())
        return flat

    def broadcast(self, flat: Tensor, root: int) -> Tensor:
        """A sum to which the others give -0.0; waits."""
        with numpy_shapes():
            own = _carried(flat)
            sent = own.copy() if root == self._rank else _neutral(own, own.size)
            self._add(sent)
            return flat if root == self._rank else _like(flat, sent)

    def all_gather(self, flat: Tensor) -> Sequence[Tensor]:
        """A sum of as many times the length, where each worker has a part of its own; waits."""
        with numpy_shapes():
            own = _carried(flat)
            found = [mx.nd.empty(own.shape, own.context) for _ in range(self._size)]
            most = _MOST // self._size
            for start in range(0, own.size, most):
                part = own[start : start + most]
                whole = _neutral(own, part.size * self._size)
                begins = [part.size * rank for rank in range(self._size)]
                part.copyto(whole[begins[self._rank] : begins[self._rank] + part.size])
                self._add(whole)
                for x, begin in zip(found, begins, strict=True):
                    whole[begin : begin + part.size].copyto(x[start : start + part.size])
            return [_like(flat, x) for x in found]

    def leave(self) -> None:
        """Free the kvstore; the launcher ends its server and scheduler."""
        if self.carries:
            del self._store

    def _add(self, x: Tensor) -> None:
        """Write the sum over all workers to ``x``, which is flat.

        Under keys of a few lengths. No push waits for an earlier one of the same key by itself, and
        the server would take the second for another worker's.
        """
        pieces = [x[start : start + _MOST] for start in range(0, x.size, _MOST)]
        for number, piece in enumerate(pieces):
            length = 1 << (piece.size - 1).bit_length()
            sent = piece if length == piece.size else mx.nd.zeros(length, x.context)
            if sent is not piece:
                piece.copyto(sent[: piece.size])
            key = f"{number} of {length}"
            if key not in self._known:
                self._store.init(key, sent)
                self._known.add(key)
            self._store.pushpull(key, sent, out=sent)
            if sent is not piece:
                sent[: piece.size].copyto(piece)
        x.wait_to_read()


def _carried(x: Tensor) -> Tensor:
    """``x`` as it travels, flat: its own memory, if it is float32."""
    name = np.dtype(x.dtype).name
    if name in _LARGE:
        words = x.asnumpy().reshape(-1).view(np.uint16).astype(np.float32)
        return mx.nd.array(words, ctx=x.ctx, dtype=np.float32)
    flat = reshaped(x, (-1,)).as_nd_ndarray()
    return flat if name == "float32" else flat.astype(np.float32)


def _like(x: Tensor, carried: Tensor) -> Tensor:
    """The values of ``carried``, with the dtype, shape, class and context of ``x``."""
    dtype = np.dtype(x.dtype)
    if dtype.name in _LARGE:
        values = carried.asnumpy().astype(np.uint16).view(dtype)
        made = mx.nd.array(values, ctx=x.ctx, dtype=dtype)
    else:
        made = carried if dtype == np.float32 else carried.astype(dtype)
    shaped = reshaped(made, x.shape)
    return shaped if isinstance(x, mx.np.ndarray) else shaped.as_nd_ndarray()


def _neutral(like: Tensor, length: int) -> Tensor:
    """-0.0, which changes no number that is added to it, as +0.0 would change -0.0."""
    return -mx.nd.zeros(length, like.context)
