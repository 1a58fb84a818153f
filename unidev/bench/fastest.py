"""``fastest_device``: on which device a function runs fastest, transfers included."""

from __future__ import annotations

from unidev.errors import InvalidDataError
from unidev.support.numbers import non_negative_integer
from unidev.support.wording import kind_of, shown

TYPE_CHECKING = False  # not typing's: importing that takes as long as all of unidev
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from unidev.bench.report import DeviceReport
    from unidev.devices.finding import DeviceLike


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
    from unidev.bench.contest import run_contest

    return run_contest(function, args, count, devices)
