"""``transfer_guard``: no transfer that nobody asked for."""

from __future__ import annotations

from unidev.errors import InvalidDataError, TransferForbiddenError
from unidev.support.wording import shown

TYPE_CHECKING = False  # not typing's: importing that takes as long as all of unidev
if TYPE_CHECKING:
    from unidev.contract.tracer import PlannedTransfer
    from unidev.tracing.call_site import Line

MODES = ("allow", "log", "forbid")


class transfer_guard:  # noqa: N801  used as a function, in a `with`
    """``with unidev.transfer_guard("forbid"):`` no tensor changes device unless that is asked for.

    Asked for is what names a device: ``copy_to``, ``as_in_device``, ``place``, ``load_parameters``,
    making a tensor for a device; and ``save_parameters``, which names a file. All else is not:
    reading a tensor of a GPU into Python or NumPy, by ``to_numpy`` or by the framework's own calls,
    and whatever the framework moves by its own calls or by itself.

    In this thread. Guards nest, and the innermost one counts. What a framework does not let anyone
    see is not stopped either: ``trace_transfers`` tells what that is.

    Args:
        mode: ``forbid`` raises, before the data moves where the framework lets one; ``log`` logs a
            warning of the logger ``unidev.transfers``; ``allow`` does nothing.

    Raises:
        InvalidDataError: no such mode.
        TransferForbiddenError: from the call that would move a tensor; says where, and what to do.

    >>> import unidev
    >>> with unidev.transfer_guard("forbid"):
    ...     x = unidev.as_in_device(unidev.rand(3), unidev.try_gpu())
    """

    def __init__(self, mode: str) -> None:
        if mode not in MODES:
            raise InvalidDataError(f"a guard's mode is {', '.join(MODES)}, not {shown(mode)}.")
        self.mode = mode

    def __enter__(self) -> transfer_guard:
        from unidev.tracing.recorder import join

        join().guards.append(self)
        return self

    def __exit__(self, *exc_info: object) -> None:
        from unidev.tracing.recorder import leave

        leave(self, f'transfer_guard("{self.mode}")')


def check_guard(mode: str, transfer: PlannedTransfer, line: Line) -> None:
    """Raise or log what nobody asked for, as the innermost guard has it."""
    from unidev.support.wording import bytes_text
    from unidev.tracing.advice import remedy, spoken

    size = "tensors" if transfer.shape is None else f"a tensor of shape {transfer.shape}"
    moves = "would move" if mode == "forbid" else "moves"
    said = (
        f"{spoken(transfer.operation)} {moves} {size}, {bytes_text(transfer.nbytes)}, from "
        f"{transfer.source} to {transfer.target}, and nobody asked for that; at {line}"
        + (f": {line.source}" if line.source else "")
        + f"\n{remedy(transfer)}"
    )
    if mode == "forbid":
        raise TransferForbiddenError(said, transfer=transfer, line=line)
    import logging

    logging.getLogger("unidev.transfers").warning("%s", said)
