"""Every verb that makes, moves, reads or asks about a tensor, as a call without arguments."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import unidev
from unidev_conformance.kit.inputs import samples

if TYPE_CHECKING:
    from collections.abc import Callable

    from unidev.device import Device
    from unidev_conformance.kit.workbench import Workbench


def verbs(bench: Workbench, source: Device, target: Device) -> dict[str, Callable[[], object]]:
    """By name; they read a tensor on ``source``, and make tensors on ``target``."""
    x, host = bench.matrix(source), samples.counting()
    return {
        "array": lambda: unidev.array(host, device=target),
        "array of a tensor": lambda: unidev.array(x, dtype="int32", device=target),
        "zeros": lambda: unidev.zeros((2, 3), device=target),
        "full": lambda: unidev.full((2, 3), 2.5, device=target),
        "empty": lambda: unidev.empty((2, 3), device=target),
        "arange": lambda: unidev.arange(3, device=target),
        "rand": lambda: unidev.rand((2, 3), device=target),
        "ones_like": lambda: unidev.ones_like(x, device=target),
        "zeros_like a view": lambda: unidev.zeros_like(bench.probe.views(x)["sliced"]),
        "zeros in a scope": lambda: _zeros_within(target),
        "copy_to": lambda: unidev.copy_to(x, target),
        "copy_to of a container": lambda: unidev.copy_to({"x": [x, x]}, target),
        "copy_to, non_blocking": lambda: unidev.copy_to(x, target, non_blocking=True),
        "as_in_device": lambda: unidev.as_in_device(x, target),
        "as_in_device, non_blocking": lambda: unidev.as_in_device(x, target, non_blocking=True),
        "to_numpy": lambda: unidev.to_numpy(x),
        "device_of": lambda: unidev.device_of(x),
        "same_device": lambda: unidev.same_device(x, [x]),
        "synchronize": unidev.synchronize,
        "synchronize(device)": lambda: unidev.synchronize(target),
        "memory": lambda: _if_supported(lambda: unidev.memory(target)),
        "track_memory": lambda: _if_supported(lambda: _track(target)),
        "list_devices": unidev.list_devices,
        "a device that is missing": lambda: _missing(x),
    }


def _zeros_within(device: Device) -> object:
    with device:
        return unidev.zeros((2, 3))


def _if_supported(call: Callable[[], object]) -> None:
    with contextlib.suppress(unidev.UnsupportedOperation):
        call()


def _track(device: Device) -> None:
    with unidev.track_memory(device) as peak:
        unidev.zeros((2, 3), device=device)
    assert peak.added_bytes >= 0, f"{peak.added_bytes} bytes were added"


def _missing(x: object) -> None:
    with contextlib.suppress(unidev.DeviceError):
        unidev.copy_to(x, "gpu:4000")
