"""GPUs by their free memory, read without creating a context on any of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from unidev.backends.boundary import errors_of
from unidev.backends.driver_memory import driver_gpus, memory_of, shares_host_memory
from unidev.backends.loading import simulators
from unidev.backends.out_of_memory import holder_text
from unidev.contract.backend import Unsupported
from unidev.errors import DeviceSpecError, UnsupportedOperation
from unidev.system.arguments import non_negative_integer
from unidev.system.host_memory import free_and_total
from unidev.system.wording import bytes_in, bytes_text, lacks_unit, shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unidev.contract.backend import Backend
    from unidev.device import Device
    from unidev.system.facts import Gpu
    from unidev.values import MemoryHolder

_EXAMPLE = 'Example: free="8GiB".'


class FreeMemory(NamedTuple):
    """The free memory of a GPU, as its driver, its simulator or the host counts it."""

    device: Device
    free_bytes: int
    total_bytes: int
    holders: tuple[MemoryHolder, ...] = ()
    is_shared: bool = False
    """Whether it is the host's."""

    def __str__(self) -> str:
        shared = " (shared with the host)" if self.is_shared else ""
        held = f", held by {', '.join(map(holder_text, self.holders))}" if self.holders else ""
        total = bytes_text(self.total_bytes)
        return f"{self.device} has {bytes_text(self.free_bytes)} of {total} free{shared}{held}"


def bytes_wanted(free: object) -> int:
    """The bytes that ``free`` requests: an integer, or text such as ``8GiB``."""
    if isinstance(free, str):
        if lacks_unit(free):
            raise DeviceSpecError(
                f"free={shown(free)} is {bytes_in(free)} bytes, since it has no unit. "
                f'Example: free="{free.strip()}GiB".',
                spec=free,
            )
        number = bytes_in(free)
    else:
        number = non_negative_integer(free)
    if number is None:
        raise DeviceSpecError(
            "free must be a number of KiB, MiB or GiB as a string, or a non-negative integer of "
            f"bytes, not {shown(free)}. {_EXAMPLE}",
            spec=free,
        )
    return number


def free_memory(gpus: Sequence[Device], backend: Backend) -> list[FreeMemory]:
    """The free memory of each of ``gpus``, by one query of the driver; creates no context.

    Raises:
        UnsupportedOperation: it cannot be read without a context; gives the reason.
    """
    if backend.simulated_count:
        return [_simulated(each, backend) for each in gpus]
    return [
        _real(device, gpu, backend)
        for device, gpu in zip(gpus, driver_gpus(gpus, backend), strict=True)
    ]


def too_little(found: Sequence[FreeMemory], wanted: int) -> str:
    """The message where none of ``found`` has so many bytes free."""
    which = str(found[0].device) if len(found) == 1 else "no GPU"
    has = "does not have" if len(found) == 1 else "has"
    listed = "; ".join(map(str, found))
    advice = (
        "End a process that is not needed, or ask for less"
        if any(each.total_bytes >= wanted for each in found)
        else "That is more than there is in all: ask for less"
    )
    return (
        f"{which} {has} {bytes_text(wanted)} of free memory: {listed}. {advice}; "
        "try_gpu(free=...) falls back to the CPU."
    )


def _simulated(device: Device, backend: Backend) -> FreeMemory:
    """By the simulator's own count and limit; without one, of the host, which backs it."""
    try:
        with errors_of(backend, f"reading the memory of {device}"):
            found = simulators[backend.name].free_and_total(device.index)
            if found is None:
                counted = backend.memory(device)
                found = counted.free_bytes, counted.total_bytes
    except UnsupportedOperation:
        return _of_host(device)
    return FreeMemory(device, *found)


def _real(device: Device, gpu: Gpu | None, backend: Backend) -> FreeMemory:
    if shares_host_memory(gpu, device, backend):
        return _of_host(device)
    found = None if gpu is None else memory_of(gpu)
    if found is not None:
        return FreeMemory(device, found.free_bytes, found.total_bytes, found.holders)
    installation = backend.installation
    accelerator = None if isinstance(installation, Unsupported) else installation.accelerator()
    reason = (
        "it is not certain which of the driver's GPUs that is, or the driver does not report its "
        "memory: `unidev doctor` shows what it reports; CUDA_DEVICE_ORDER=PCI_BUS_ID gives CUDA "
        "the driver's order, and CUDA_VISIBLE_DEVICES=MIG-... names an instance, by its UUID"
        if accelerator == "cuda"
        else f"only NVIDIA's driver reports it without a context, and {device.native_name} is "
        f"not CUDA's; unidev.memory({str(device)!r}) may create the context, and read it"
    )
    raise UnsupportedOperation(f"reading the free memory of {device}", reason)


def _of_host(device: Device) -> FreeMemory:
    free, total = free_and_total()
    if free is None or total is None:
        raise UnsupportedOperation(
            f"reading the free memory of {device}",
            "it is the host's, and this system does not report that",
        )
    return FreeMemory(device, free, total, is_shared=True)
