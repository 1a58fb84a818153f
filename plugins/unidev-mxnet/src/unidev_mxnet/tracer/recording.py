"""The tracer's state for each thread, besides its open scopes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unidev.contract import Recording

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from unidev.contract import PlannedTransfer
    from unidev_mxnet.tracer.gradients import Crossing

    Function = Callable[..., Any]
    Transfers = Sequence[PlannedTransfer]


class MxnetRecording(Recording):
    """Adds the devices crossed while autograd recorded, and whether a KVStore is running."""

    def __init__(self) -> None:
        super().__init__()
        self.is_in_store = False
        """Whether a KVStore is running, and perhaps an optimizer's Python, called from C++."""
        self._hidden: BaseException | None = None
        """The error that a scope raised meanwhile."""
        self.gradients: dict[str, list[Crossing]] = {}
        """The transfers while autograd recorded, by the name of their node in the graph."""

    def call(
        self, transfers: Transfers, function: Function, /, *arguments: Any, **options: Any
    ) -> Any:
        """As in ``Recording``, but inner calls belong to this one, even if nothing moves.

        MXNet's naive engine calls back into Python in this thread, where ctypes drops errors.
        """
        if not transfers:
            return self.muted(function, *arguments, **options)
        return super().call(transfers, function, *arguments, **options)

    def call_store(self, function: Function, *arguments: Any) -> Any:
        """Call a KVStore function, and raise an error that a scope raised in its callbacks.

        ctypes only prints an error of the optimizer's Python, and drops it.
        """
        self.is_in_store = True
        try:
            status = function(*arguments)
        finally:
            self.is_in_store = False
            hidden, self._hidden = self._hidden, None
        if hidden is not None:
            raise hidden
        return status

    def refused(self, error: BaseException) -> None:
        """Keep the first error that ctypes would drop."""
        if self.is_in_store and self._hidden is None:
            self._hidden = error

    def closed(self) -> None:
        """Forget the crossings: gradients that cross back later are a blind spot."""
        self.gradients.clear()
