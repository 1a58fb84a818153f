"""What moving many bytes costs: time against the framework's own copy, and memory at the peak."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from measure import Row, compare
from own_calls import own_calls
from table import main

import unidev

if TYPE_CHECKING:
    from collections.abc import Iterator

MIB = 2**20


def rows_of(backend: str, spec: str) -> Iterator[Row]:
    """The rows of one backend."""
    device = unidev.as_device(spec)
    own = own_calls(backend)
    yield _copy_row(backend, device, own.copy)
    yield _zeros_row(backend, device, own.zeros)
    if device.kind == "cpu" and Path("/proc/self/clear_refs").exists():
        yield _peak_row(backend, device)


def _copy_row(backend: str, device: unidev.Device, own: tuple[str, Any]) -> Row:
    x = unidev.rand(64 * MIB // 4, device=device)
    name, copy = own

    def ours() -> None:
        unidev.copy_to(x, device)
        unidev.synchronize(device)

    def theirs() -> None:
        copy(x)
        unidev.synchronize(device)

    return Row(backend, "copy_to 64 MiB", name, *compare(ours, theirs), 1.05)


def _zeros_row(backend: str, device: unidev.Device, own: tuple[str, Any]) -> Row:
    n, native = 256 * MIB // 4, device.native
    name, zeros = own

    def ours() -> None:
        unidev.zeros(n, device=device)
        unidev.synchronize(device)

    def theirs() -> None:
        zeros(n, native)
        unidev.synchronize(device)

    return Row(backend, "zeros 256 MiB", name, *compare(ours, theirs), 1.1)


def _peak_row(backend: str, device: unidev.Device) -> Row:
    """Resident memory at its peak while a tree of 32 x 8 MiB is copied, over the tree's size."""
    tree = {f"part {i}": [unidev.rand(8 * MIB // 4, device=device)] for i in range(32)}
    size = 32 * 8 * MIB
    unidev.copy_to({"warm": unidev.zeros(4, device=device)}, device)
    unidev.synchronize(device)
    before = _status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts anew
    copied = unidev.copy_to(tree, device)
    unidev.synchronize(device)
    peak = _status("VmHWM") - before
    assert unidev.device_of(copied) is device
    return Row(
        backend, "peak while copying a tree", "its size", peak, size, peak / size, 1.05, "bytes"
    )


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise LookupError(field)


if __name__ == "__main__":
    main(__doc__ or "", rows_of)
