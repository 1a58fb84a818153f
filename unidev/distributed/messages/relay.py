"""Exchanges through worker 0, which also finds out whether all workers make the same one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unidev.distributed.messages.frames import EVERYBODY

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from unidev.distributed.messages.channel import Channel

_CODE_BYTES = 8
_ALL = (1 << 64) - 1


class CodesDiffer(Exception):  # noqa: N818  not an error of the user's: it is caught on each worker
    """The workers are about to exchange different things."""


class Relay:
    """Every worker sends a part to worker 0, and gets back what worker 0 makes of them all.

    The code of the collective goes ahead of each part, so that agreeing takes no message of its
    own; and whatever the workers call, each sends one message and waits for one.
    """

    def __init__(self, channel: Channel, rank: int, size: int) -> None:
        self.code = 0
        """Of the collective that these exchanges belong to."""
        self._channel = channel
        self._rank = rank
        self._size = size

    def exchange(self, part: Any, made: Callable[[Sequence[Any]], Sequence[Any]]) -> Any:
        """The bytes that ``made`` returns in pieces, at worker 0, of the parts by rank.

        Raises:
            CodesDiffer: on every worker, if their codes differ.
        """
        channel, own = self._channel, self.code.to_bytes(_CODE_BYTES, "little")
        there, back = channel.next_number(), channel.next_number()
        if self._rank:
            channel.post(0, there, own, part)
            code, answer = _divided(channel.receive(0, back))
            if code != own:
                raise CodesDiffer
            return answer
        received = [_divided(channel.receive(peer, there)) for peer in range(1, self._size)]
        if any(code != own for code, _ in received):
            # One that no worker has whose own code is that of worker 0.
            channel.post(EVERYBODY, back, (self.code ^ _ALL).to_bytes(_CODE_BYTES, "little"))
            raise CodesDiffer
        pieces = made([part, *(each for _, each in received)])
        channel.post(EVERYBODY, back, own, *pieces)
        return pieces[0] if len(pieces) == 1 else bytearray().join(pieces)

    def agrees(self, code: int) -> bool:
        """Whether all workers give the same ``code``; waits for them."""
        self.code = code
        try:
            self.exchange(b"", lambda parts: parts[:1])
        except CodesDiffer:
            return False
        return True


def _divided(message: bytearray) -> tuple[memoryview, memoryview]:
    whole = memoryview(message)
    return whole[:_CODE_BYTES], whole[_CODE_BYTES:]
