"""``memory`` and ``track_memory``, on devices in use and not yet used. PYTEST_DONT_REWRITE."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import unidev
from unidev_conformance.judging.outcomes import NotApplicableError
from unidev_conformance.kit.counting import TOLERANCE_BYTES
from unidev_conformance.kit.processes.fresh import run_fresh
from unidev_conformance.running.catalog import check

if TYPE_CHECKING:
    from collections.abc import Callable

    from unidev.device import Device
    from unidev_conformance.kit.workbench import Workbench

_BYTES = 16 * 2**20
"""A size that no other check frees, so that no allocator has it in stock. A power of two, since
allocators that grow by those count all of a larger block (TensorFlow's: 16 MiB for 11; PyTorch's
12 MiB)."""
_ATTEMPTS = 3
"""Others use a card too, and frameworks release what they used for themselves when they like."""


def _held(device: Device, nbytes: int = _BYTES) -> Any:
    return unidev.zeros(nbytes // 4, device=device)


@check(required=True, needs=("memory",))
def test_memory(bench: Workbench) -> None:
    """``memory`` gives sizes that fit together, and sees a tensor that is held, until it is not."""
    for device in _counted(bench, unidev.memory):
        _check_sizes(device)
        _retried(_check_seen, device)
        _retried(_check_used_again, device)
        if _is_counted(bench, unidev.track_memory, device):  # tensors, not what a pool keeps
            _retried(_check_falls_back, device)
        for other in bench.devices:
            if other is not device and device.kind == "gpu":
                _retried(_check_unseen, device, other)
        bench.evidence.add("memory", f"{device}: {tuple(unidev.memory(device))}")


def _check_sizes(device: Device) -> None:
    found = unidev.memory(device)
    assert len(found) == 3, f"memory({device}) is {tuple(found)}, not used, free and total bytes"
    used, free, total = found
    assert all(type(size) is int for size in found), f"memory({device}) is {tuple(found)}: no ints"
    assert 0 <= used <= total, f"memory({device}): {used} bytes used of {total}"
    assert 0 <= free <= total, f"memory({device}): {free} bytes free of {total}"
    assert total > _BYTES, f"memory({device}): {total} bytes in total"


def _check_seen(device: Device) -> None:
    before = unidev.memory(device).used_bytes
    held = _held(device)
    unidev.synchronize(device)
    found = unidev.memory(device)
    rose, reserved = found.used_bytes - before, found.reserved_bytes
    assert rose >= _BYTES - TOLERANCE_BYTES, (
        f"memory({device}) rose by {rose} bytes while a tensor of {_BYTES} was held"
    )
    assert reserved is None or reserved >= _BYTES, (
        f"memory({device}): {reserved} bytes reserved while a tensor of {_BYTES} was held"
    )
    del held


def _used_beside(held: Any, device: Device) -> int:
    """The bytes in use on ``device``, while ``held`` is held there or elsewhere."""
    unidev.synchronize(unidev.device_of(held))
    return unidev.memory(device).used_bytes


def _check_used_again(device: Device) -> None:
    first = _used_beside(_held(device), device)
    for _ in range(3):
        _held(device)
    again = _used_beside(_held(device), device)
    assert again - first <= TOLERANCE_BYTES, (
        f"memory({device}) rises with every tensor of {_BYTES} bytes, though the last was dropped: "
        f"{first} bytes used beside the first, {again} beside the fifth"
    )


def _check_falls_back(device: Device) -> None:
    before = unidev.memory(device).used_bytes
    _used_beside(_held(device), device)
    left = unidev.memory(device).used_bytes - before
    assert left <= TOLERANCE_BYTES, (
        f"memory({device}): {left} bytes more used than before a tensor of {_BYTES} was made and "
        "dropped"
    )


def _check_unseen(device: Device, other: Device) -> None:
    _held(other)  # what its first use takes
    before = unidev.memory(device).used_bytes
    rose = _used_beside(_held(other), device) - before
    assert abs(rose) <= TOLERANCE_BYTES, (
        f"memory({device}) rose by {rose} bytes while a tensor of {_BYTES} was held on {other}"
    )


@check(required=True, needs=("peaks",))
def test_peak(bench: Workbench) -> None:
    """``track_memory`` sees what was held for a moment, on its device alone, and nests."""
    devices = _counted(bench, unidev.track_memory)
    for device in devices:
        _retried(_check_peak, device)
        for other in bench.devices:
            if other is not device and device.kind == "gpu":  # by way of the host is a way
                _retried(_check_apart, device, other)
        for other in devices:
            if other is not device:
                _retried(_check_not_restarted, device, other)
        bench.evidence.add("peak", str(device))


def _check_peak(device: Device) -> None:
    _held(device)  # what is allocated once and kept
    kept = _held(device)
    with unidev.track_memory(device) as outer:
        for_a_moment = [_held(device), _held(device)]
        unidev.synchronize(device)
        del for_a_moment
        with unidev.track_memory(device) as inner:
            _held(device)
            unidev.synchronize(device)
        with unidev.track_memory(device) as nothing:
            pass
    times = 1 if device.kind == "cpu" or device.is_simulated else 2
    where = f"{device}: two tensors for a moment"
    _check_near(outer.added_bytes, 2 * _BYTES, where, most=times * 2 * _BYTES)
    where = f"{device}: one, in a block within the block"
    _check_near(inner.added_bytes, _BYTES, where, most=times * _BYTES)
    _check_near(nothing.added_bytes, 0, f"{device}: none, in another block within it")
    assert outer.start_bytes >= _BYTES - TOLERANCE_BYTES, (
        f"{device}: {outer.start_bytes} bytes at the start, where one of {_BYTES} was held"
    )
    seen = outer.peak_bytes
    later = [kept, _held(device), _held(device), _held(device)]
    assert outer.peak_bytes == seen, f"{device}: the peak of a block that has ended changes"
    del later


def _check_apart(device: Device, other: Device) -> None:
    with unidev.track_memory(device) as peak:
        _held(other)
        unidev.synchronize(other)
    _check_near(peak.added_bytes, 0, f"{device}: a tensor on {other}")


def _check_not_restarted(device: Device, other: Device) -> None:
    """A block for another device begins anew, and this one's peak is what it was."""
    with unidev.track_memory(device) as peak:
        _held(device)
        unidev.synchronize(device)
        with unidev.track_memory(other) as beside:
            pass
    most = _BYTES * (1 if device.kind == "cpu" or device.is_simulated else 2)
    where = f"{device}: a tensor for a moment, before a block for {other}"
    _check_near(peak.added_bytes, _BYTES, where, most=most)
    _check_near(beside.added_bytes, 0, f"{other}: none, after a tensor on {device}")
    with unidev.track_memory(device) as after:
        pass
    left = after.start_bytes - peak.start_bytes
    assert left <= TOLERANCE_BYTES, f"{where}: {left} bytes are counted once it was dropped"
    _check_near(after.added_bytes, 0, f"{device}: none, in a block after another")


def _check_near(found: int, expected: int, where: str, *, most: int | None = None) -> None:
    """Allocators of hardware may count a larger block than was asked for: twice as much."""
    limit = (expected if most is None else most) + TOLERANCE_BYTES
    assert expected - TOLERANCE_BYTES <= found <= limit, (
        f"{where}: track_memory added {found} bytes, not {expected}"
    )


def _counted(bench: Workbench, verb: Callable[[Device], object]) -> list[Device]:
    """The devices on which ``verb`` is supported, at least one."""
    found = [device for device in bench.devices if _is_counted(bench, verb, device)]
    if not found:
        raise NotApplicableError("the framework counts no memory on any of these devices")
    return found


def _is_counted(bench: Workbench, verb: Callable[[Device], object], device: Device) -> bool:
    try:
        verb(device)
    except unidev.UnsupportedOperation as refusal:
        bench.evidence.add("unsupported", f"{device}: {refusal.reason}")
        return False
    return True


def _retried(assertion: Callable[..., None], *devices: Device) -> None:
    for _ in range(_ATTEMPTS - 1):
        with contextlib.suppress(AssertionError):
            return assertion(*devices)
    return assertion(*devices)


@check(required=True)
def test_first_use(bench: Workbench) -> None:
    """As the first use of a GPU in a process, each of these calls works, or is unsupported."""
    device = str(bench.real_gpus()[-1])
    for call in _FIRST_CALLS:
        code = _FIRST.replace("CALL", call)
        found = run_fresh(code, backend=bench.backend.name, arguments=(device,))
        where = f"{call} as the first use of {device}"
        assert "error" not in found, f"{where} raises {found['error']}"
        assert found["read"] == [1.0, 2.0], f"after {where}, a tensor there reads {found['read']}"
        if "added" in found:
            _check_near(found["added"], _BYTES, where, most=2 * _BYTES)
        bench.evidence.add("first", f"{where}: {found}")


_FIRST_CALLS = ("memory(device)", "track(device)", "synchronize(device)")
_FIRST = f"""
import unidev
from unidev import memory, synchronize
from unidev_conformance.kit.processes.looking import use

device, found = unidev.as_device(sys.argv[1]), {{}}

def track(device):
    with unidev.track_memory(device) as peak:
        held = unidev.zeros({_BYTES // 4}, device=device)
        unidev.synchronize(device)
    found["added"] = peak.added_bytes

try:
    CALL
except unidev.UnsupportedOperation as refusal:
    found["unsupported"] = refusal.reason
except Exception as error:
    found["error"] = f"{{type(error).__name__}}: {{error}}"
else:
    found["read"] = use(device)
answer({{"read": use(device), **found}} if "error" not in found else found)
"""
