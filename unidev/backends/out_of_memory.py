"""The error for running out of memory: what was requested, what was free, and who holds it."""

from __future__ import annotations

import math
import os
import re
from typing import TYPE_CHECKING, NamedTuple

from unidev.backends.driver_memory import driver_gpu, memory_of, shares_host_memory
from unidev.backends.loading import loaded_backends
from unidev.contract.backend import MEMORY_NUMBERS
from unidev.contract.dtypes import DTYPES, portable_name
from unidev.errors import OutOfDeviceMemoryError, UnsupportedOperation
from unidev.system.extras import is_complete
from unidev.system.host_memory import free_and_total
from unidev.system.processes import largest_processes
from unidev.system.wording import bytes_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from unidev.contract.backend import Backend
    from unidev.device import Device
    from unidev.values import MemoryHolder

_SIZE = r"\d+\.?\d* ?(?:[KMGTPE]?i?B|bytes)?"
_FORMS = dict(zip(MEMORY_NUMBERS, (_SIZE, _SIZE, _SIZE, r"[\d, ]*", r"\w+"), strict=True))
_OF_NUMPY = ("Unable to allocate {requested}",)
"""With any framework, arrays on the host may be what finds no memory."""
_GPU = re.compile(r"\bGPU:? ?(\d+)\b")
_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50, "E": 2**60}
_OF_C = {"half": "float16", "float": "float32", "double": "float64"}
"""C's names of dtypes, which messages from C++ may have."""

_MOST_HOLDERS = 3


class Numbers(NamedTuple):
    """The numbers in a framework's own message; None where it does not give one."""

    requested_bytes: int | None = None
    free_bytes: int | None = None
    total_bytes: int | None = None
    gpu: int | None = None


class Found(NamedTuple):
    """A device's memory, as its driver, its framework or the host reports it."""

    free_bytes: int | None = None
    total_bytes: int | None = None
    holders: tuple[MemoryHolder, ...] = ()
    is_host: bool = False
    """Whether it is the host's, which a device without memory of its own uses."""


def out_of_memory(
    message: str,
    backend: str,
    doing: str,
    device: Device | None,
    made: tuple[tuple[int, ...], object] | None,
) -> OutOfDeviceMemoryError:
    """The error; ``made`` is the shape and dtype of the tensor that was being made, if any."""
    loaded = loaded_backends.get(backend)
    numbers = numbers_in(message, () if loaded is None else loaded.out_of_memory_numbers)
    where = device or _device_named(numbers, loaded)
    requested = numbers.requested_bytes
    if requested is None and made is not None and loaded is not None:
        requested = _size(made[0], portable_name(made[1], loaded))
    found = _found(where, loaded)
    free, total = _free_and_total(numbers, found, where)
    facts = " ".join(_facts(where, requested, free, total, found))
    return OutOfDeviceMemoryError(
        f"{backend} ran out of memory while {doing}. {facts}{' ' if facts else ''}Free tensors "
        f"that are not needed, or use a smaller batch or another device. {message}",
        device=where,
        requested_bytes=requested,
        free_bytes=free,
        total_bytes=total,
        holders=found.holders,
    )


def numbers_in(message: str, parts: Sequence[str]) -> Numbers:
    """The numbers in a framework's message, by ``Backend.out_of_memory_numbers``."""
    found: dict[str, str] = {}
    for part in (*parts, *_OF_NUMPY):
        match = _pattern(part).search(message)
        if match is not None:
            found = {**match.groupdict(), **found}
    requested = _bytes(found.get("requested"))
    if requested is None and "shape" in found:
        dtype = found.get("dtype", "")
        shape = tuple(int(size) for size in found["shape"].split(",") if size.strip())
        requested = _size(shape, _OF_C.get(dtype, dtype))
    free, total = _bytes(found.get("free")), _bytes(found.get("total"))
    gpu = _GPU.search(message)
    return Numbers(requested, free, total, None if gpu is None else int(gpu[1]))


def _pattern(part: str) -> re.Pattern[str]:
    literals, names = (re.split("{(.*?)}", part)[start::2] for start in (0, 1))
    forms = [f"(?P<{name}>{_FORMS[name]})" for name in names]
    return re.compile(
        "".join(
            f"(?i:{re.escape(literal)}){form}"
            for literal, form in zip(literals, [*forms, ""], strict=True)
        )
    )


def host_memory() -> Found:
    """The host's memory, and this user's processes that hold most of it; unknown without psutil."""
    if not is_complete("hardware"):
        return Found(is_host=True)
    free, total = free_and_total()
    return Found(free, total, tuple(largest_processes(_MOST_HOLDERS)), is_host=True)


def _free_and_total(
    numbers: Numbers, found: Found, device: Device | None
) -> tuple[int | None, int | None]:
    """Free and total bytes of one source: two counts of different extent would not fit together.

    The framework's message, which is of the moment, if it has a number; but of a GPU that shares
    the host's memory it may count only a part.
    """
    is_gpu = device is not None and device.kind == "gpu" and not device.is_simulated
    if numbers.free_bytes is None or (is_gpu and found.is_host):
        return found.free_bytes, found.total_bytes
    return numbers.free_bytes, numbers.total_bytes


def _bytes(text: str | None) -> int | None:
    """``2.50 GiB``, ``3.5GB`` and ``4096``, in bytes."""
    if text is None:
        return None
    number = text.rstrip("KMGTPEiBbytes ")
    unit = text[len(number) :].strip()[:1]
    return int(float(number) * _UNITS.get(unit, 1))


def _device_named(numbers: Numbers, backend: Backend | None) -> Device | None:
    """The GPU that the message names, else the CPU unless a real GPU could be meant."""
    if backend is None:
        return None
    gpus = backend.device_count("gpu")
    if numbers.gpu is not None and numbers.gpu < gpus:
        return backend.device("gpu", numbers.gpu)
    return backend.cpu if backend.simulated_count or not gpus else None


def _found(device: Device | None, backend: Backend | None) -> Found:
    if backend is None or (device is not None and (device.kind == "cpu" or device.is_simulated)):
        return host_memory()
    if device is None:
        return Found()
    gpu = driver_gpu(device, backend)
    if shares_host_memory(gpu, device, backend):
        return host_memory()
    driver = None if gpu is None else memory_of(gpu)
    if driver is not None:
        return Found(driver.free_bytes, driver.total_bytes, driver.holders)
    fails: tuple[type[Exception], ...] = (UnsupportedOperation, *backend.framework_errors)
    try:
        memory = backend.memory(device)
    except fails:  # with no memory left, this may fail too
        return Found()
    return Found(memory.free_bytes, memory.total_bytes)


def _size(shape: tuple[int, ...], dtype: str | None) -> int | None:
    known = DTYPES.get(dtype or "")
    return None if known is None else math.prod(shape) * known.nbytes


def _facts(
    device: Device | None, requested: int | None, free: int | None, total: int | None, found: Found
) -> Iterator[str]:
    if requested is not None:
        yield f"Requested: {bytes_text(requested)}."
    if device is not None and device.is_simulated:
        yield f"{device} is simulated: it uses the host's memory."
    elif device is not None and device.kind != "cpu" and found.is_host:
        yield f"{device} shares the host's memory."
    if free is not None:
        where = "" if device is None else f" on {device}"
        yield f"Free{where}: {bytes_text(free)}" + (
            "." if total is None else f" of {bytes_text(total)}."
        )
    if found.holders:
        yield "Held by " + ", ".join(map(holder_text, found.holders)) + "."


def holder_text(holder: MemoryHolder) -> str:
    """``process 12 (python): 3 GiB``; by number alone if it is another user's."""
    name = "this process" if holder.pid == os.getpid() else holder.name or "name unknown"
    used = "an unknown amount" if holder.used_bytes is None else bytes_text(holder.used_bytes)
    return f"process {holder.pid} ({name}): {used}"
