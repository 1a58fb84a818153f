"""Host memory: what is free, and what this process has allocated from the C library."""

from __future__ import annotations

import ctypes
import functools
import warnings
from typing import TYPE_CHECKING

from unidev.errors import UnsupportedOperation
from unidev.system.extras import check_extra

if TYPE_CHECKING:
    from collections.abc import Callable

    from unidev.device import Device

_OPERATION = "counting allocated bytes"
_MANUAL = "https://man7.org/linux/man-pages/man3/mallinfo.3.html"


class _Mallinfo2(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd",
            "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost",
        )
    ]  # fmt: skip


def free_and_total() -> tuple[int | None, int | None]:
    """Available and total bytes; None where the system does not report them.

    Raises:
        UnsupportedOperation: psutil is not installed.
    """
    check_extra("hardware", "reading the host's memory")
    import psutil

    try:
        with warnings.catch_warnings():
            # In some containers psutil cannot read shared or inactive memory, and warns.
            warnings.simplefilter("ignore", RuntimeWarning)
            memory = psutil.virtual_memory()
    except OSError:  # /proc is missing or empty
        return None, None
    return memory.available, memory.total


def allocated_bytes(device: Device) -> int:
    """Bytes that this process has allocated and not freed, by glibc's count.

    Counts the whole process: mapped blocks (``hblkhd``) and heap blocks (``uordblks``). Valid for
    the host and for simulated devices, which use the host's memory.

    Raises:
        UnsupportedOperation: a real GPU, or a C library that keeps no such count.
    """
    if device.kind != "cpu" and not device.is_simulated:
        raise UnsupportedOperation(
            _OPERATION,
            f"the C library does not count the memory of {device}; the probe must override it",
        )
    info = _mallinfo2()()
    return int(info.hblkhd) + int(info.uordblks)


@functools.cache
def _mallinfo2() -> Callable[[], _Mallinfo2]:
    try:
        function = ctypes.CDLL(None).mallinfo2
    except (AttributeError, OSError, TypeError) as error:  # musl, macOS, Windows; glibc before 2.33
        raise UnsupportedOperation(
            _OPERATION, "the C library has no mallinfo2 (glibc has it since 2.33)", _MANUAL
        ) from error
    function.argtypes = []
    function.restype = _Mallinfo2
    return function
