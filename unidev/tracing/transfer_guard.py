"""``transfer_guard``: forbids or logs implicit transfers."""

from __future__ import annotations

from unidev.backends.observer import thread
from unidev.system.arguments import choice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from unidev.tracing.recorder import Recorder

MODES = ("allow", "log", "forbid")


class transfer_guard:  # noqa: N801  used as a function, in a `with`
    """``with unidev.transfer_guard("forbid"):`` implicit transfers between devices are errors.

    Explicit transfers are those of calls that name a device: ``copy_to``, ``as_in_device``,
    ``device_put``, ``place``, ``load_parameters``, and making a tensor on a device; also
    ``device_get``, whose name says the host, and ``save_parameters``, which names a file. All
    others are implicit: reading a GPU tensor into Python or NumPy, with ``to_numpy`` or the
    framework's own calls, and whatever else the framework moves.

    Applies to this thread. Guards can be nested; the innermost one applies. Transfers that a
    framework does not expose are not stopped: ``trace_transfers`` lists them.

    Args:
        mode: ``forbid`` raises, before the data moves if the framework permits; ``log`` logs a
            warning to the logger ``unidev.transfers``; ``allow`` does nothing.

    Raises:
        InvalidDataError: ``mode`` is not one of these.
        TransferForbiddenError: from the call that would move a tensor; the message says where, and
            what to do.

    >>> import unidev
    >>> with unidev.transfer_guard("forbid"):
    ...     x = unidev.as_in_device(unidev.rand(3), unidev.try_gpu())
    """

    def __init__(self, mode: str) -> None:
        self.mode = choice("transfer_guard's mode", mode, MODES)
        self._entered: list[Recorder] = []

    def __enter__(self) -> transfer_guard:
        from unidev.tracing.recorder import join

        recorder = join()
        recorder.guards.append(self)
        self._entered.append(recorder)
        return self

    def __exit__(self, *exc_info: object) -> None:
        from unidev.tracing.recorder import leave

        innermost = self._entered[-1] if self._entered else None
        recorder = next((each for each in self._entered if each is thread.recorder), innermost)
        leave(recorder, self, f'transfer_guard("{self.mode}")')
        self._entered.remove(recorder)  # type: ignore[arg-type]  # it was not None
