"""A collective that goes on while this worker computes: gradients, exchanged during backward."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unidev.errors import CollectiveError, UnidevError, UnsupportedOperation
from unidev.parallel.exchange.agreeing import Proposal
from unidev.system.host.board import OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from unidev.parallel.exchange.agreeing import Agreement
    from unidev.parallel.exchange.membership import Membership

_ALL_REDUCE = OPERATIONS.index("all_reduce")


class OpenCollective:
    """The one that is open, if there is one; while it is, there is no other."""

    def __init__(self, own: Membership, agreement: Agreement) -> None:
        self._own = own
        self._agreement = agreement
        self._open: Proposal | None = None
        self._broken = ""
        """Why this worker can take part in no collective any more."""

    def check_none(self) -> None:
        """Raise unless this worker can begin another collective."""
        if self._broken:
            raise CollectiveError(
                f"worker {self._own.rank} cannot exchange any more: {self._broken}."
            )
        if self._open is not None:
            raise UnsupportedOperation(
                "a collective in the middle of backward, where there was none in the first step",
                "gradients are being exchanged: call it in each step, or outside of value_and_grad",
            )

    @property
    def next_number(self) -> int:
        """The number of the next collective."""
        return self._own.mark.next

    def propose(
        self, call: str, code: int, weight: float, lines: Callable[[], list[str]]
    ) -> Proposal:
        """Open a collective that lasts until ``end``; where memory is shared, waits for nobody."""
        self.check_none()
        self._open = Proposal(self.next_number, call, code, weight, lines)
        self._agreement.propose(self._open)
        return self._open

    def settle(self, proposal: Proposal) -> Sequence[float]:
        """The weights of all workers, once they agree on it."""
        mark = self._own.mark
        mark.enter(_ALL_REDUCE)
        try:
            weights = self._agreement.settled(proposal)
        except UnidevError:
            self._open = None
            raise
        mark.go_back()  # to computing: whoever waits now is not this worker
        return weights

    def await_rest(self) -> None:
        """Note that this worker waits for it."""
        self._own.mark.enter(_ALL_REDUCE)

    def end(self, proposal: Proposal) -> None:
        """Close it.

        Raises:
            CollectiveError: another worker has abandoned it.
        """
        self.leave()
        self._agreement.check_abandoned(proposal.number)

    def leave(self) -> None:
        """Close it, whatever others did."""
        self._open = None
        self._own.mark.leave()

    def is_open(self, proposal: Proposal) -> bool:
        """Whether the other workers count on this one."""
        return self._open is proposal

    def abandon(self, proposal: Proposal) -> None:
        """Note for the others that this worker gives nothing more to it."""
        self._own.mark.enter(_ALL_REDUCE)
        self._agreement.abandon(proposal.number)

    def break_off(self, error: BaseException) -> None:
        """Leave the others in it: this worker takes part in none any more."""
        self._open = None
        self._own.mark.doing(0)
        self._broken = f"{type(error).__name__} left a step in the middle of its exchange"
