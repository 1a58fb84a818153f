"""The cost of moving many bytes: time compared with the framework's own copy, and peak memory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from measure import Row, compare, peak_bytes, sized
from own_calls import OWN_CALLS, VERBS
from program import main

import unidev
from unidev.system.wording import bytes_text

if TYPE_CHECKING:
    from collections.abc import Iterator

MIB = sized(2**20, 2**14)
"""In a trial, a 64th."""


def rows_of(backend: str, spec: str) -> Iterator[Row]:
    """The rows of one backend."""
    device = unidev.as_device(spec)
    own = OWN_CALLS[backend]
    names: dict[str, Any] = {**VERBS, "device": device, "native": device.native}
    exec(own.setup, names)
    names["x"] = unidev.rand(64 * MIB // 4, device=device)
    copy = _waiting("copy_to(x, device)", own.copy, names)
    yield Row(backend, f"copy_to {bytes_text(64 * MIB)}", own.copy, *copy, 1.05)
    names["n"] = 256 * MIB // 4
    zeros = _waiting("zeros(n, device=device)", own.zeros, names)
    # NumPy's cost nothing until they are touched: 3 µs for arguments are a fifth of that.
    limit = 1.3 if backend == "numpy" else 1.1
    yield Row(backend, f"zeros {bytes_text(256 * MIB)}", own.zeros, *zeros, limit)
    if device.kind == "cpu" and Path("/proc/self/clear_refs").exists():
        yield _peak_row(backend, device)


def _waiting(ours: str, theirs: str, names: dict[str, Any]) -> tuple[float, float, float]:
    """Compare two statements, each followed by a wait for its work."""
    return compare(f"{ours}\nsynchronize(device)", f"{theirs}\nsynchronize(device)", names)


def _peak_row(backend: str, device: unidev.Device) -> Row:
    """Peak resident memory while a tree of 32 x 8 MiB is copied, relative to the tree's size."""
    tree = {f"part {i}": [unidev.rand(8 * MIB // 4, device=device)] for i in range(32)}
    size = 32 * 8 * MIB
    unidev.copy_to({"warm": unidev.zeros(4, device=device)}, device)
    unidev.synchronize(device)

    def copy() -> None:
        copied = unidev.copy_to(tree, device)
        unidev.synchronize(device)
        assert unidev.device_of(copied) is device

    peak = peak_bytes(copy)
    return Row(
        backend, "peak while copying a tree", "its size", peak, size, peak / size, 1.05, "bytes"
    )


if __name__ == "__main__":
    main(__doc__ or "", rows_of)
