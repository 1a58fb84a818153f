"""Agreement of all workers on a collective before it begins, and each one's part until its end."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from unidev.backends.loading import load_backend
from unidev.errors import (
    CollectiveError,
    FrameworkError,
    InvalidDataError,
    UnsupportedContainerError,
    UnsupportedOperation,
)
from unidev.parallel.exchange.host_engine import HostEngine
from unidev.parallel.messages.relay import CodesDiffer
from unidev.system.host.board import OPERATIONS, bits_of, weight_of
from unidev.tracing.call_site import CallSites

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from unidev.device import Device
    from unidev.parallel.exchange.engines import Engines
    from unidev.parallel.exchange.membership import Membership
    from unidev.parallel.exchange.trees import Tree

T = TypeVar("T")
_WRAPPED = CollectiveError, FrameworkError, UnsupportedContainerError
"""Their cause is what was raised."""
_NEWS_S = 2.0
"""How long a failed exchange waits for the news of a worker that has left it."""
_ALL_BITS = (1 << 64) - 1
"""Engines carry signed integers."""
_STEP_BITS = 16
"""Where the number of the step is in the compared code: above what the board has no room for."""


class Proposal(NamedTuple):
    """What a worker is about to exchange; the same on all, apart from the weight."""

    number: int
    """The number of the collective, from 1."""
    call: str
    code: int
    """The code of the call and its lines."""
    weight: float | None
    """This worker's own."""
    lines: Callable[[], list[str]]
    """What the code stands for, in words."""


class Agreement:
    """One worker's agreement with the others, by a code of 64 bits for each collective.

    Workers of one host compare codes in memory that they share. Others do so by the framework's
    engine, an exchange of its own; or, where the launcher's channel carries the tensors, by the
    very messages that do. Only if codes differ do the workers send one another what they stand for.
    """

    def __init__(self, own: Membership, engines: Engines, device: Callable[[], Device]) -> None:
        self._own = own
        self._engines = engines
        self._device = device
        self._abandoned = 0
        """The last collective that this worker has abandoned."""
        self._gathered = 0
        """The last one before which the workers sent one another their numbers."""
        self.steps = 0
        """The steps that this worker has begun, since the last one that all refused."""
        self.refused = -1
        """The last collective that all workers left by an error."""

    @contextmanager
    def reached(self, proposal: Proposal, *, at_once: bool) -> Iterator[Sequence[float]]:
        """A collective on which all agree, with the weights of all workers, if it has weights.

        Unless ``at_once``, the exchange in the block may be what brings the codes.

        Raises:
            InvalidDataError: on each worker, if calls or their lines differ; names the difference.
        """
        if self._own.channel is None:
            yield [proposal.weight or 1.0]
            return
        try:
            yield self._compared(proposal, at_once=at_once)
        except CodesDiffer:
            raise InvalidDataError(self._difference(proposal)) from None

    def propose(self, proposal: Proposal) -> None:
        """Show it to the others early, where they share memory; waits for nobody."""
        if self._shares_memory:
            self._own.mark.propose(proposal.number, self._code(proposal), proposal.weight or 0.0)

    def check_heard(self) -> None:
        """Raise CollectiveError if another worker has left a collective early."""
        if self._own.channel is not None and (heard := self._own.channel.heard()):
            raise CollectiveError(heard)

    def refuse(self) -> None:
        """Note that all workers raise an error instead of this collective, and can go on."""
        self._own.mark.leave()
        self.refused = self._own.mark.entered

    def abandon(self, number: int) -> None:
        """Tell the others that this worker gives nothing more to collective ``number``."""
        self._abandoned = number
        self._own.mark.abandon(number)

    def check_abandoned(self, number: int) -> None:
        """Raise CollectiveError if another worker has abandoned it.

        Elsewhere the next one is refused on all, also on that worker: else it would go on alone.
        """
        if self._shares_memory:
            self._refuse(self._own.mark.abandoned(number), "this step")

    def _refuse(self, ranks: Sequence[int], step: str) -> None:
        if ranks:
            self.refuse()
            raise CollectiveError(
                f"worker {ranks[0]} raised an exception in its backward, so the gradients of "
                f"{step} are not those of all workers."
            )

    @property
    def _shares_memory(self) -> bool:
        return self._own.mark.count == self._own.size

    def _compared(self, proposal: Proposal, *, at_once: bool) -> Sequence[float]:
        own, code, weight = self._own, self._code(proposal), proposal.weight
        if self._shares_memory:
            self.propose(proposal)
            found = own.mark.agreed(proposal.number, code, self.check_heard)
            if found is None:
                raise CodesDiffer
            return found
        backend, relay = load_backend(own.backend), self._engines.relay
        # Both are collectives, too: all workers come to them at their first one.
        self._engines.host(backend)
        if self._shares_memory:  # since then
            return self._compared(proposal, at_once=at_once)
        engine = self._engines.of(backend)[0]
        if isinstance(engine, HostEngine) and weight is None:
            assert relay is not None
            relay.code = code
            if at_once:
                self._engines.run(backend, relay.confirm)
            return []
        device = backend.cpu if engine.on_host else self._device()
        if relay is not None:
            relay.code = code
        own_numbers = [code, bits_of(weight or 0.0), self._abandoned]
        numbers = np.array(own_numbers, "uint64").view("int64").tolist()
        everybody = self._engines.run(backend, engine.gather_numbers, numbers, device)
        before, self._gathered = self._gathered, proposal.number
        ranks = [rank for rank, each in enumerate(everybody) if each[2] >= before > 0]
        if len(ranks) < own.size:  # else all of them know
            self._refuse(ranks, "the step before")
        if any(each[0] != numbers[0] for each in everybody):
            raise CodesDiffer
        return [weight_of(each[1] & _ALL_BITS) for each in everybody]

    def _code(self, proposal: Proposal) -> int:
        return (proposal.code ^ self.steps << _STEP_BITS) & _ALL_BITS

    def _difference(self, proposal: Proposal) -> str:
        own = self._own
        assert own.channel is not None
        described = proposal.call, self.steps, proposal.lines()
        found = own.channel.compare(proposal.number, described)
        self.refuse()
        self.steps = 0  # on all workers: the next step is one for all
        assert found is not None, "codes differ and what they stand for does not"
        return found


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


def code_of(call: str, lines: Sequence[str]) -> int:
    """A number for what is exchanged, the same in every process."""
    return _code("\n".join([call, *lines]).encode())


def with_weights(code: int, weights: Sequence[float]) -> int:
    """The code of the same call with weights that must be the same on all workers."""
    return _code(b"%d %s" % (code, repr(weights).encode()))


def tree_lines(tree: Tree, weights: Sequence[float] | None = None) -> list[str]:
    """What must be the same on all workers, in words, apart from the call."""
    listed = [f"weight {weight!r} for worker {rank}" for rank, weight in enumerate(weights or ())]
    kind = f"{tree.backend.name} tensors on a {tree.device.kind.upper()}"
    return [*listed, kind, *tree.lines()]


def _code(text: bytes) -> int:
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "little")
