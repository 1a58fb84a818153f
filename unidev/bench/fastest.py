"""``fastest_device``: on which device a function runs fastest, transfers included."""

from __future__ import annotations

import gc
import time
from typing import TYPE_CHECKING, Any

from unidev.backends.framework_errors import framework_error, is_lack_of_memory
from unidev.backends.selection import active_backend
from unidev.bench.report import DeviceReport, Trial
from unidev.bench.spread import summary
from unidev.errors import DeviceNotFoundError, InvalidDataError, OutOfDeviceMemoryError, UnidevError
from unidev.models.placing import backend_of_model, place
from unidev.system.arguments import non_negative_integer
from unidev.system.collecting import collection_paused
from unidev.system.wording import kind_of, shown
from unidev.tensors.checks import device_of
from unidev.tensors.containers import tensors_of
from unidev.tensors.devices import devices_of, resolve_device, synchronize
from unidev.tensors.kinds import is_model
from unidev.tensors.transfer import as_in_device

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from unidev.contract.backend import Backend
    from unidev.device import Device
    from unidev.tensors.devices import DeviceLike

_WARM_UPS = 2
"""During the first call a framework compiles, chooses algorithms and allocates memory."""
_SIMULATED = "it is simulated: it computes on the CPU, so its timings do not represent a GPU"


def fastest_device(
    function: Callable[..., Any],
    /,
    *args: Any,
    repeat: int = 11,
    devices: Sequence[DeviceLike] | None = None,
) -> DeviceReport:
    """Run ``function(*args)`` on each real device, and report where it is fastest.

    For each device, ``repeat`` times: the tensors in ``args`` are moved there, the function runs
    inside ``with device:``, and the tensors in its result are moved back to the original device of
    ``args``. The three steps are timed separately; their sum decides. Models in ``args`` are placed
    once per device, timed separately, and moved back at the end. Before timing, the function runs
    twice on each device. Blocks until everything is done. Tensors that are on the device already
    are not copied, so if the function writes to them, they stay changed.

    Args:
        function: computes on the tensors that it receives.
        args: tensors, nested containers of them, models; anything else is passed unchanged.
        repeat: the number of timings for each device, at least 3.
        devices: the devices to compare; by default all devices of the backend. Simulated devices
            compute on the CPU and are left out.

    Returns:
        A report. ``print(report)`` prints a table; ``report.device`` is the fastest device. If
        ``report.is_too_close`` to call, it is the first of the contenders (the CPU before GPUs).
        ``report.trials`` has the timings, and ``report.left_out`` the devices left out, and why.

    Raises:
        InvalidDataError: ``function`` cannot be called, ``repeat`` is less than 3, or ``devices``
            is not a list.
        DeviceError: one of ``devices`` is invalid or not available, or all are simulated.
        OutOfDeviceMemoryError: no device has enough memory; if only some lack it, they are left
            out.

    What ``function`` raises reaches the caller. An example::

        report = unidev.fastest_device(train, net, X, y)
        print(report)
        unidev.place(net, report.device)
    """
    if not callable(function):
        raise InvalidDataError(
            f"fastest_device takes a function, then its arguments, not {kind_of(function)}."
        )
    count = non_negative_integer(repeat)
    if count is None or count < 3:
        raise InvalidDataError(f"repeat must be an integer of at least 3, not {shown(repeat)}.")
    runner = _Runner(function, args)
    trials: list[Trial] = []
    left_out: dict[str, str] = {}
    failure: OutOfDeviceMemoryError | None = None
    for device in _candidates(runner.backend, devices):
        if device.is_simulated:
            left_out[str(device)] = _SIMULATED
            continue
        try:
            trials.append(runner.trial(device, count))
        except OutOfDeviceMemoryError as error:
            left_out[str(device)] = str(error)
            failure = error
    if failure is not None and not trials:
        raise failure
    if not trials:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in left_out.items())
        raise DeviceNotFoundError(
            f"there is no device to compare: {reasons or 'devices is empty'}."
        )
    return DeviceReport(trials=tuple(trials), left_out=left_out)


def _candidates(backend: Backend, devices: Sequence[DeviceLike] | None) -> list[Device]:
    if devices is None:
        return devices_of(backend)
    try:
        given = None if isinstance(devices, str) else list(devices)
    except TypeError:
        given = None
    if given is None:
        raise InvalidDataError(
            f"devices must be a list of devices, such as ['cpu', 'gpu:0'], not {shown(devices)}."
        )
    return list(dict.fromkeys(resolve_device(each, backend) for each in given))


class _Runner:
    """The function, its arguments and their original devices."""

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self._function = function
        self._args = args
        self._models = [(each, device_of(each)) for each in args if is_model(each)]
        found = tensors_of(self._movable())
        if found:
            tensor, self.backend = found[0]
            self._home = self.backend.device_of(tensor)
        else:
            models = self._models
            self.backend = backend_of_model(models[0][0]) if models else active_backend()
            self._home = models[0][1] if models else self.backend.cpu

    def trial(self, device: Device, repeat: int) -> Trial:
        """Run it on ``device`` ``repeat`` times, then move the models back."""
        try:
            placing_s = self._place(device)
            gc.collect()
            with collection_paused():
                timings = [self._once(device) for _ in range(_WARM_UPS + repeat)][_WARM_UPS:]
        except self.backend.framework_errors as error:
            if isinstance(error, UnidevError) or not is_lack_of_memory(error, self.backend.name):
                raise
            raise framework_error(
                error, self.backend.name, "running the function", device
            ) from error
        finally:
            for model, home in self._models:
                place(model, home)
        total = summary([sum(each) for each in timings])
        there, computing, back = (summary(column) for column in zip(*timings, strict=True))
        return Trial(
            device=device, total=total, there=there, computing=computing, back=back,
            placing_s=placing_s,
        )  # fmt: skip

    def _place(self, device: Device) -> float | None:
        if not self._models:
            return None
        began = time.perf_counter()
        for model, _ in self._models:
            place(model, device)
        synchronize(device)
        return time.perf_counter() - began

    def _once(self, device: Device) -> tuple[float, float, float]:
        """Seconds for moving the arguments there, for computing, and for moving the result back."""
        began = time.perf_counter()
        moved = iter(as_in_device(self._movable(), device))
        synchronize(device)
        arrived = time.perf_counter()
        with device:
            result = self._function(*(x if is_model(x) else next(moved) for x in self._args))
        synchronize(device)
        computed = time.perf_counter()
        kept = None if is_model(result) else as_in_device((result,), self._home)
        synchronize(self._home)
        back = time.perf_counter()
        del kept
        return arrived - began, computed - arrived, back - computed

    def _movable(self) -> tuple[Any, ...]:
        """The arguments that are not models; a tuple may contain non-tensors as well."""
        return tuple(x for x in self._args if not is_model(x))
