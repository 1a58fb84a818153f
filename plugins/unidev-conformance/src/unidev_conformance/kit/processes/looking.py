"""Looking at devices in every way, and using them: what the checks of contexts and forks run."""

from __future__ import annotations

import contextlib
import pickle
from typing import TYPE_CHECKING, Any

import unidev

if TYPE_CHECKING:
    from collections.abc import Callable

    from unidev.device import Device


def looks() -> dict[str, Callable[[], object]]:
    """By name, all that asks for devices, or waits for those that nothing has used."""
    return {
        "list_devices()": unidev.list_devices,
        "num_gpus()": unidev.num_gpus,
        "try_gpu() and try_all_gpus()": lambda: (unidev.try_gpu(), unidev.try_all_gpus()),
        "gpu(index)": lambda: [unidev.gpu(index) for index in range(unidev.num_gpus())],
        "the spellings of devices": _spell,
        "a device that is missing": _miss,
        "free memory": _weigh,
        "synchronize()": unidev.synchronize,
    }


def look() -> list[Device]:
    """Look in every way; returns the devices."""
    for each in looks().values():
        each()
    return unidev.list_devices()


def tried() -> dict[str, Any]:
    """The results of ``try_gpu()`` and ``try_all_gpus()``, and the number of GPUs."""
    return {
        "count": unidev.num_gpus(),
        "all": [str(device) for device in unidev.try_all_gpus()],
        "first": str(unidev.try_gpu()),
    }


def use(device: Device) -> list[float]:
    """Make, copy and read a tensor there; returns its numbers, 1 and 2."""
    x = unidev.array([1.0, 2.0], device=device)
    y = unidev.copy_to(x, device)
    unidev.synchronize(device)
    found: list[float] = unidev.to_numpy(y).tolist()
    return found


def _spell() -> None:
    for device in unidev.list_devices():
        for spelling in (str(device), device.native_name, device.native, device):
            assert unidev.as_device(spelling) is device, f"{spelling!r} is not {device}"
        again = pickle.loads(pickle.dumps(device))  # noqa: S301  ours
        assert again is device, f"{device}, unpickled, is another object"
        _ = repr(device), hash(device), device.is_simulated


def _weigh() -> None:
    with contextlib.suppress(unidev.UnsupportedOperation):  # it would take a context
        unidev.try_all_gpus(free=1)
        unidev.try_gpu(most_free=True)


def _miss() -> None:
    try:
        unidev.gpu(4000)
    except unidev.DeviceNotFoundError:
        return
    raise AssertionError("gpu(4000) raises nothing")
