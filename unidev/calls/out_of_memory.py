"""The error for memory that ran out: what was asked for, what was free, and who holds it."""

from __future__ import annotations

import math
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from unidev.calls.driver_memory import MemoryHolder, driver_memory
from unidev.errors import OutOfDeviceMemoryError, UnsupportedOperation
from unidev.hardware.processes import process_told
from unidev.registry.loading import loaded_backends
from unidev.support.wording import size

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from unidev.contract.backend import Backend
    from unidev.contract.device import Device

_SIZE = r"([\d.]+) ?([KMGTP]?i?B|bytes)"
_ASKED = (
    # PyTorch of a GPU, of the host; PaddlePaddle of a GPU, of the host; NumPy.
    re.compile(rf"[Tt]ried to allocate {_SIZE}"),
    re.compile(rf"Cannot allocate {_SIZE}"),
    re.compile(r"alloc memory of (\d+)( )size"),
    re.compile(rf"Unable to allocate {_SIZE}"),
)
_FREE = (re.compile(rf"of which {_SIZE} is free"), re.compile(rf"available memory is only {_SIZE}"))
_TOTAL = (re.compile(rf"total capacity of {_SIZE}"),)
_SHAPED = re.compile(r"OOM when allocating tensor with shape\[([\d,]*)\] and type (\w+)")
"""TensorFlow's words."""
_GPU = re.compile(r"\bGPU:? ?(\d+)\b")
_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50}
_ITEM_BYTES = {
    "float": 4, "double": 8, "half": 2, "bfloat16": 2, "int8": 1, "uint8": 1, "int16": 2,
    "uint16": 2, "int32": 4, "uint32": 4, "int64": 8, "uint64": 8, "bool": 1,
    "complex64": 8, "complex128": 16, "float16": 2, "float32": 4, "float64": 8,
}  # fmt: skip
"""By TensorFlow's names, and unidev's."""

_PROC = Path("/proc")
_MOST_HOLDERS = 3


class Told(NamedTuple):
    """What the framework's own words say; None: not that."""

    requested_bytes: int | None = None
    free_bytes: int | None = None
    total_bytes: int | None = None
    gpu: int | None = None


class Found(NamedTuple):
    """What a device has, by whoever knows."""

    free_bytes: int | None = None
    total_bytes: int | None = None
    holders: tuple[MemoryHolder, ...] = ()


def out_of_memory(
    said: str,
    backend: str,
    doing: str,
    device: Device | None,
    made: tuple[tuple[int, ...], object] | None,
) -> OutOfDeviceMemoryError:
    """The error; ``made`` is the shape and dtype of the tensor that was to be, where one was."""
    told = words_told(said)
    loaded = loaded_backends.get(backend)
    where = device or _device_told(told, loaded)
    requested = told.requested_bytes
    if requested is None and made is not None and loaded is not None:
        requested = _size(*made, loaded)
    found = _found(where, loaded)
    free = found.free_bytes if told.free_bytes is None else told.free_bytes
    total = found.total_bytes if told.total_bytes is None else told.total_bytes
    facts = " ".join(_facts(where, requested, free, total, found.holders))
    return OutOfDeviceMemoryError(
        f"{backend} has no memory left for {doing}. {facts}{' ' if facts else ''}Free tensors that "
        f"are not needed, or take a smaller batch or another device. {said}",
        device=where,
        requested_bytes=requested,
        free_bytes=free,
        total_bytes=total,
        holders=found.holders,
    )


def words_told(said: str) -> Told:
    """The numbers in what a framework said."""
    requested = _number(_ASKED, said)
    shaped = _SHAPED.search(said)
    if requested is None and shaped is not None and shaped[2] in _ITEM_BYTES:
        sizes = [int(size) for size in shaped[1].split(",") if size]
        requested = math.prod(sizes) * _ITEM_BYTES[shaped[2]]
    gpu = _GPU.search(said)
    return Told(
        requested, _number(_FREE, said), _number(_TOTAL, said), None if gpu is None else int(gpu[1])
    )


def host_memory(proc: Path = _PROC) -> Found:
    """What the host has for any process, and the processes that have the most of it."""
    told = dict(line.split(":", 1) for line in _text(proc / "meminfo").splitlines() if ":" in line)
    free, total = (
        int(told[name].split()[0]) * 1024 if name in told else None
        for name in ("MemAvailable", "MemTotal")
    )
    return Found(free, total, tuple(_largest(proc)))


def _number(patterns: Sequence[re.Pattern[str]], said: str) -> int | None:
    for pattern in patterns:
        match = pattern.search(said)
        if match is not None:
            return int(float(match[1]) * _UNITS.get(match[2][0], 1))
    return None


def _device_told(told: Told, backend: Backend | None) -> Device | None:
    """The GPU that the words name, else the CPU where no real GPU could be meant."""
    if backend is None:
        return None
    gpus = backend.device_count("gpu")
    if told.gpu is not None and told.gpu < gpus:
        return backend.device("gpu", told.gpu)
    return backend.cpu if backend.simulated_count or not gpus else None


def _found(device: Device | None, backend: Backend | None) -> Found:
    if backend is None or (device is not None and (device.kind == "cpu" or device.is_simulated)):
        return host_memory()
    if device is None:
        return Found()
    driver = driver_memory(device, backend)
    if driver is not None:
        return Found(driver.free_bytes, driver.total_bytes, driver.holders)
    try:
        memory = backend.memory(device)
    except UnsupportedOperation:
        return Found()
    except backend.framework_errors:  # nor can a framework that has no memory left always tell
        return Found()
    return Found(memory.free_bytes, memory.total_bytes)


def _size(shape: tuple[int, ...], dtype: object, backend: Backend) -> int | None:
    name = next((name for name, own in backend.dtypes.items() if own == dtype), "")
    item = _ITEM_BYTES.get(name)
    return None if item is None else math.prod(shape) * item


def _largest(proc: Path) -> Iterator[MemoryHolder]:
    found = []
    for statm in proc.glob("[0-9]*/statm"):
        pages = _text(statm).split()
        if len(pages) > 1:
            found.append((int(pages[1]) * os.sysconf("SC_PAGE_SIZE"), int(statm.parent.name)))
    for used, pid in sorted(found, reverse=True)[:_MOST_HOLDERS]:
        yield MemoryHolder(pid, process_told(pid, proc)[0], used)


def _facts(
    device: Device | None,
    requested: int | None,
    free: int | None,
    total: int | None,
    holders: Sequence[MemoryHolder],
) -> Iterator[str]:
    if requested is not None:
        yield f"Asked for: {size(requested)}."
    if device is not None and device.is_simulated:
        yield f"{device} is simulated: its memory is the host's."
    if free is not None:
        where = "" if device is None else f" on {device}"
        yield f"Free{where}: {size(free)}" + ("." if total is None else f" of {size(total)}.")
    if holders:
        yield "Held by " + ", ".join(_holder(each) for each in holders) + "."


def _holder(holder: MemoryHolder) -> str:
    name = "this process" if holder.pid == os.getpid() else holder.name or "name unknown"
    used = "an unknown amount" if holder.used_bytes is None else size(holder.used_bytes)
    return f"process {holder.pid} ({name}): {used}"


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:  # over, another user's, or a system without /proc
        return ""
