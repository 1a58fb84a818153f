"""Drawn copies, compared with NumPy's bit by bit: dtype, shape, layout, verb and pair of devices.

    python tests/fuzz/drawn_copies.py torch --copies 5000 [--seed 0] [--simulate 2]

A copy depends only on the seed and its number. Values are random bits, NaN payloads included.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from unidev.contract.backend import Backend
    from unidev.device import Device

Array = np.ndarray[Any, Any]

LENGTHS = (0, 1, 1, 2, 3, 5, 8, 17, 64, 127)
LARGE = (2**11, 2**14, 2**16 + 1)
VERBS = ("copy_to", "as_in_device", "array", "in a list", "non_blocking", "to_numpy")


def bits(dtype: str, shape: tuple[int, ...], draw: random.Random) -> Array:
    """Random bits of that dtype; a bool is 0 or 1."""
    count = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    raw = np.frombuffer(bytearray(draw.randbytes(count)), np.uint8)
    return (raw & 1 if dtype == "bool" else raw).view(dtype).reshape(shape)


def drawn_shape(draw: random.Random) -> tuple[int, ...]:
    """Up to four axes; sometimes one long one."""
    if draw.random() < 0.1:
        return (draw.choice(LARGE),)
    shape = [draw.choice(LENGTHS) for _ in range(draw.randrange(5))]
    while np.prod(shape) > 2**16:
        shape.pop()
    return tuple(shape)


def wrong(number: int, seed: int, backend: Backend) -> Iterator[str]:
    """What differs from NumPy in the copy of that number."""
    import unidev

    draw = random.Random(f"{seed}:{number}")
    devices = unidev.list_devices()
    dtype = draw.choice([name for name in backend.dtypes if name != "bfloat16"])
    source, target = draw.choice(devices), draw.choice(devices)
    values = bits(dtype, drawn_shape(draw), draw)
    x = backend.probe.make(np.ascontiguousarray(values).reshape(values.shape), source)
    x, values, layout = _laid_out(x, values, draw, backend)
    verb = draw.choice(VERBS)
    where = f"{number}: {verb} of {layout} {dtype} {values.shape}, {source} to {target}"
    if verb == "to_numpy":
        y = unidev.to_numpy(x)
        if y.tobytes() != values.tobytes() or y.dtype != values.dtype or y.shape != values.shape:
            yield f"{where}: other values"
    elif verb == "as_in_device" and source is target:
        if unidev.as_in_device(x, target) is not x:
            yield f"{where}: another object"
    else:
        for fault in _faults(x, _copied(x, target, verb), values, target, backend):
            yield f"{where}: {fault}"


def _laid_out(
    x: Any, values: Array, draw: random.Random, backend: Backend
) -> tuple[Any, Array, str]:
    layouts = {"dense": values}
    if values.ndim == 2 and 0 not in values.shape:
        layouts["transposed"] = values.T
        layouts["sliced"] = values[1:, ::2]
        layouts["broadcast"] = np.broadcast_to(values, (3, *values.shape))
    layout = draw.choice(list(layouts))
    with contextlib.suppress(*backend.framework_errors):  # MXNet's views are not of all dtypes
        if layout != "dense":
            return backend.probe.views(x)[layout], layouts[layout], layout
    return x, values, "dense"


def _copied(x: Any, target: Device, verb: str) -> Any:
    import unidev

    if verb == "in a list":
        return unidev.copy_to([x], target)[0]
    if verb == "array":
        return unidev.array(x, device=target)
    if verb == "non_blocking":
        y = unidev.copy_to(x, target, non_blocking=True)
        unidev.synchronize(target)
        return y
    return getattr(unidev, verb)(x, target)


def _faults(x: Any, y: Any, values: Array, target: Device, backend: Backend) -> Iterator[str]:
    import unidev

    expected = values.tobytes()
    if backend.probe.read(y) != expected:
        yield "other values"
    if tuple(y.shape) != values.shape or y.dtype != x.dtype:
        yield f"shape {tuple(y.shape)}, dtype {y.dtype}"
    if unidev.device_of(y) is not target:
        yield f"it is on {unidev.device_of(y)}"
    if values.size and unidev.shares_memory(x, y):
        yield "shared memory"
    if backend.probe.read(x) != expected:
        yield "the source was changed"


def main() -> int:
    """The command at the top of this file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("backend")
    parser.add_argument("--copies", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--simulate", type=int, default=2)
    given = parser.parse_args()
    os.environ.update(UNIDEV_BACKEND=given.backend, UNIDEV_SIMULATE=str(given.simulate))
    from unidev.backends.loading import load_backend

    backend, count = load_backend(given.backend), 0
    for number in range(given.copies):
        for found in wrong(number, given.seed, backend):
            count += 1
            print(found, flush=True)
    print(f"{given.backend}: {given.copies} copies, {count} faults")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
