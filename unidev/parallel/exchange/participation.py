"""One worker's part in the collectives of all: what is open, and whether it can still exchange."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, TypeVar

from unidev.backends.loading import load_backend
from unidev.errors import (
    CollectiveError,
    FrameworkError,
    UnsupportedContainerError,
    UnsupportedOperation,
)
from unidev.parallel.exchange.agreeing import Proposal
from unidev.system.host.board import OPERATIONS
from unidev.tracing.call_site import CallSites

if TYPE_CHECKING:
    from collections.abc import Callable

    from unidev.parallel.exchange.agreeing import Agreement
    from unidev.parallel.exchange.engines import Engines
    from unidev.parallel.exchange.membership import Membership

T = TypeVar("T")
_WRAPPED = CollectiveError, FrameworkError, UnsupportedContainerError
"""Their cause is what was raised."""
_NEWS_S = 2.0
"""How long a failed exchange waits for the news of a worker that has left it."""


class Participation:
    """Who leaves a collective early, alone, exchanges no more, and all others hear of it.

    They would wait for it, or take its next collective for the one that it has left. An error that
    all workers raise leaves them as they are.
    """

    def __init__(self, own: Membership, engines: Engines, agreement: Agreement) -> None:
        self.mark = own.mark
        self.agreement = agreement
        self._own = own
        self._engines = engines
        self._open: Proposal | None = None
        """The collective of a step, from its proposal to its end: meanwhile there is no other."""
        self._broken = ""
        """Why no worker can exchange with this one any more."""

    def check(self) -> None:
        """Raise unless this worker can begin another collective."""
        self._own.check_process()
        if self.mark.is_inside:  # its exception has interrupted what is below
            self._give_up(None)
        if self._broken:
            raise CollectiveError(self._broken)
        self.agreement.check_heard()
        if self._open is not None:
            raise UnsupportedOperation(
                "a collective in the middle of backward, where there was none in the first step",
                "gradients are being exchanged: call it in each step, or outside of value_and_grad",
            )

    def whole(self, work: Callable[..., T], *arguments: Any, is_one: bool = True) -> T:
        """What ``work`` returns. Whatever it raises in a collective makes this worker give up.

        If it ``is_one``, also between two, and after the last. It is not a block, as an exception
        may come within the end of a block.
        """
        first = self.mark.entered
        try:
            return work(*arguments)
        except BaseException as error:
            is_open, now = self._open is not None, self.mark.entered
            if self.agreement.refused == (self._open.number if self._open else now):
                self._open = None
            elif os.getpid() != self._own.process:  # a fork, on which nobody counts
                raise
            elif self.mark.is_inside or is_open or (is_one and now > first):
                heard = self._give_up(error)
                if heard and isinstance(error, CollectiveError):
                    raise CollectiveError(heard) from error
            raise

    def _give_up(self, error: BaseException | None) -> str:
        """Exchange no more, and tell the others; what another worker told before, if one did."""
        own, heard = self._own, ""
        if own.channel is not None and own.size > 1:
            is_consequence = isinstance(error, CollectiveError)
            heard = own.channel.heard(_NEWS_S if is_consequence else 0.0)
            self._broken = self._broken or heard or self._said(error)
            if not heard:
                own.channel.give_up(self._broken, is_consequence=is_consequence)
            self._engines.abort(self._broken)
        self.close()
        return heard

    def _said(self, error: BaseException | None) -> str:
        what, number = OPERATIONS[self.mark.operation], self.mark.entered
        if self._open is not None:
            what, number = "all_reduce", self._open.number
        own = error.__cause__ if error is not None and type(error) in _WRAPPED else error
        by = "an exception" if own is None else f"{type(own).__name__} at {self._line()}"
        left = f"it left {what} number {number} by {by}"
        return f"worker {self._own.rank} cannot exchange any more: {left}"

    def _line(self) -> str:
        """The user's, that has called the collective."""
        sites, frame = CallSites(), sys._getframe()
        sites.pass_over(load_backend(self._own.backend))
        while not sites.is_of_user(frame) and frame.f_back is not None:
            frame = frame.f_back
        return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"

    # -- the collective of a step ----------------------------------------------------------------

    def propose(
        self, call: str, code: int, weight: float, lines: Callable[[], list[str]]
    ) -> Proposal:
        """Open a collective that lasts until ``close``; where memory is shared, waits for nobody.

        Between two calls that take part in it, its mark goes back: whoever waits then is not this
        worker, and what raises is the user's.
        """
        self.check()
        self._open = Proposal(self.mark.entered + 1, call, code, weight, lines)
        self.agreement.propose(self._open)
        return self._open

    def can_abandon(self, proposal: Proposal) -> bool:
        """Whether the others count on this worker, and all that it has begun is whole."""
        is_lost = self.agreement.refused == proposal.number or self.mark.is_inside
        return self._open is proposal and not is_lost and os.getpid() == self._own.process

    def close(self) -> None:
        """Close it, whatever others did."""
        self._open = None
        self.mark.leave()
