"""Lack of memory: a GPU is filled; on the host, the address space of the process is limited."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

import unidev
from unidev_conformance.judging.outcomes import InconclusiveError, NotApplicableError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from unidev.contract.probe import Probe
    from unidev.device import Device

_MIB = 2**20
_ON_HOST = 1024 * _MIB
_ON_A_CARD = 512 * _MIB
_MOST_ATTEMPTS = 8


def too_much(device: Device) -> int:
    """So many bytes that fit on ``device`` now, and not while memory is scarce there.

    Raises:
        NotApplicableError: nothing can make memory scarce there.
    """
    if not _is_of_host(device):
        try:
            return min(_ON_A_CARD, unidev.memory(device).total_bytes // 2)
        except unidev.UnsupportedOperation as refusal:
            raise NotApplicableError(f"{device} cannot be filled: {refusal.reason}") from refusal
    if sys.platform != "linux":
        raise NotApplicableError("this system does not limit how much a process may allocate")
    return _ON_HOST


def scarce(device: Device, probe: Probe) -> AbstractContextManager[None]:
    """A block in which ``too_much(device)`` bytes cannot be allocated on ``device``."""
    return _limited() if _is_of_host(device) else _filled(device, probe)


def _is_of_host(device: Device) -> bool:
    return device.kind == "cpu" or device.is_simulated


@contextmanager
def _limited() -> Iterator[None]:
    import resource

    import psutil

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    used = psutil.Process().memory_info().vms
    # Half of it is left to threads and small tensors.
    resource.setrlimit(resource.RLIMIT_AS, (used + _ON_HOST // 2, hard))
    try:
        if _fits_on_host():
            raise InconclusiveError("the limit of this process's memory has no effect")
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _fits_on_host() -> bool:
    try:
        np.empty(_ON_HOST, "uint8")
    except MemoryError:
        return False
    return True


@contextmanager
def _filled(device: Device, probe: Probe) -> Iterator[None]:
    nbytes = too_much(device)
    held = _fill(device, nbytes // 4)
    if _fits_on_card(device, probe, nbytes):
        raise InconclusiveError(f"{nbytes} bytes still fit on {device} once it was filled")
    try:
        yield
    finally:
        del held
        unidev.synchronize(device)


def _fill(device: Device, spare: int) -> Any:
    counted = unidev.memory(device)
    free = counted.free_bytes
    if counted.driver is not None:
        free = min(free, counted.driver.free_bytes)
    for attempt in range(_MOST_ATTEMPTS):
        held = _held(device, (free - spare) * (16 - attempt) // 16)
        if held is not None:
            return held
    raise InconclusiveError(f"of {free} free bytes of {device}, no half can be allocated at once")


def _held(device: Device, nbytes: int) -> Any:
    try:
        return unidev.empty(nbytes, dtype="uint8", device=device)
    except unidev.OutOfDeviceMemoryError:
        return None


def _fits_on_card(device: Device, probe: Probe, nbytes: int) -> bool:
    try:
        probe.make(np.zeros(nbytes, "uint8"), device)
        unidev.synchronize(device)
    except Exception:  # noqa: BLE001  each framework has its own
        return False
    return True
