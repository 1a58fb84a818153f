"""``convert`` on the CPU, to and from NumPy, against the frameworks' own ``from_dlpack``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from measure import Row, compare
from program import main

import unidev

if TYPE_CHECKING:
    from collections.abc import Iterator

KIB, MIB = 2**10, 2**20
TO = {
    "torch": ("import torch", "torch.from_dlpack(a)"),
    "tensorflow": (
        "from tensorflow.experimental.dlpack import from_dlpack",
        "from_dlpack(a.__dlpack__())",
    ),
    "paddle": ("from paddle.utils.dlpack import from_dlpack", "from_dlpack(a)"),
    "mxnet": ("import mxnet as mx", "mx.nd.from_dlpack(a.__dlpack__())"),
}
AT_MOST = {"tensorflow": 4.5}
"""Its own call takes 0.7 µs; before it, unidev looks at the address, by which a process may end."""
NO_DLPACK = ("mxnet",)
"""Tensors that NumPy does not read by DLPack."""


def rows_of(backend: str, _spec: str) -> Iterator[Row | str]:
    """The rows of one backend, whatever its GPUs: NumPy has none."""
    if backend not in TO:
        yield "no conversion between it and NumPy is compared"
        return
    setup, own = TO[backend]
    for size in (4 * KIB, 4 * MIB):
        names: dict[str, Any] = {"convert": unidev.convert, "np": np, "a": _aligned(size)}
        unidev.active_backend()  # MXNet is imported by unidev, or not at all
        exec(setup, names)
        what = f"of {size // KIB:,} KiB"
        limit = AT_MOST.get(backend, 1.5)
        ours = f"convert(a, {backend!r})"
        yield Row(backend, f"convert from numpy, {what}", own, *compare(ours, own, names), limit)
        if backend in NO_DLPACK:
            continue
        names["x"] = unidev.array(names["a"], device=unidev.cpu())
        ours, theirs = "convert(x, 'numpy')", "np.from_dlpack(x)"
        yield Row(
            backend, f"convert to numpy, {what}", theirs, *compare(ours, theirs, names), limit
        )


def _aligned(nbytes: int) -> np.ndarray[Any, Any]:
    """Numbers that begin at a multiple of 64 bytes, without which TensorFlow shares nothing."""
    room = np.zeros(nbytes + 64, np.uint8)
    start = -room.ctypes.data % 64
    made: np.ndarray[Any, Any] = room[start : start + nbytes].view(np.float32)
    return made


if __name__ == "__main__":
    main(__doc__ or "", rows_of)
