"""``fastest_device``: on which device a function should run, the data's journey counted."""

from __future__ import annotations

from unidev.errors import InvalidDataError
from unidev.support.numbers import non_negative_integer
from unidev.support.wording import shown

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
    """Run ``function(*args)`` on each real device, and say where it is fastest.

    On each device, ``repeat`` times: the tensors in ``args`` are brought there, the function runs
    inside ``with device:``, and the tensors in its result are brought back to where those of
    ``args`` were. The three are timed apart; what decides is their sum. A model among ``args`` is
    placed once a device, which is timed by itself, and is back where it was in the end. The
    function runs twice on each device before anything is timed, and blocks until all is done. A
    tensor that is there already is not copied: what the function writes into it stays.

    Args:
        function: computes on the tensors that it is given.
        args: tensors, nested containers of them, models; anything else is passed on as it is.
        repeat: how often it is timed on each device, from 3.
        devices: those to compare; by default all of the backend. A simulated one computes on the
            CPU, and is left out.

    Returns:
        A report. ``print(report)`` prints a table; ``report.device`` is the fastest, or, where
        ``report.is_too_close`` to call, the first of those that cannot be told apart (the CPU
        before GPUs); ``report.trials`` has the timings, ``report.left_out`` whom it left out.

    Raises:
        InvalidDataError: ``repeat`` is less than 3, or ``devices`` is no list.
        DeviceError: one of ``devices`` makes no sense or is not there, or all are simulated.
        Whatever ``function`` raises. A device that has too little memory is left out, unless all
        have.

        report = unidev.fastest_device(train, net, X, y)
        print(report)
        unidev.place(net, report.device)
    """
    count = non_negative_integer(repeat)
    if count is None or count < 3:
        raise InvalidDataError(f"repeat must be an integer of at least 3, not {shown(repeat)}.")
    from unidev.bench.contest import run_contest

    return run_contest(function, args, count, devices)
