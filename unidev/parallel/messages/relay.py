"""Exchanges by the channel; the codes of all go through worker 0, which compares them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unidev.system.host.frames import EVERYBODY

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from unidev.parallel.messages.channel import Channel

_CODE_BYTES = 8
_ALL = (1 << 64) - 1


class CodesDiffer(Exception):  # noqa: N818  not an error of the user's: it is caught on each worker
    """The workers are about to exchange different things."""


class Relay:
    """What workers send one another, once they agree on it.

    The code of the collective goes ahead of a part that goes through worker 0, so that agreeing
    takes no message of its own; and whatever the workers call, each sends one message and waits for
    one. What goes to all others directly is sent after such an exchange.
    """

    def __init__(self, channel: Channel, rank: int, size: int) -> None:
        self.code = 0
        """The code of the collective that these exchanges belong to."""
        self.rank = rank
        self.size = size
        self._channel = channel

    def exchange(self, part: Any, made: Callable[[Sequence[Any]], Sequence[Any]]) -> Any:
        """The bytes that ``made`` returns in pieces, at worker 0, of the parts by rank.

        Raises:
            CodesDiffer: on every worker, if their codes differ.
        """
        channel, own = self._channel, self.code.to_bytes(_CODE_BYTES, "little")
        there, back = channel.next_number(), channel.next_number()
        if self.rank:
            channel.post(0, there, own, part)
            code, answer = _divided(channel.receive(0, back))
            if code != own:
                raise CodesDiffer
            return answer
        received = [_divided(channel.receive(peer, there)) for peer in range(1, self.size)]
        if any(code != own for code, _ in received):
            # One that no worker has whose own code is that of worker 0.
            channel.post(EVERYBODY, back, (self.code ^ _ALL).to_bytes(_CODE_BYTES, "little"))
            raise CodesDiffer
        pieces = made([part, *(each for _, each in received)])
        channel.post(EVERYBODY, back, own, *pieces)
        return pieces[0] if len(pieces) == 1 else bytearray().join(pieces)

    def confirm(self) -> None:
        """Return once all have come to this collective; ``CodesDiffer`` on all if theirs do."""
        self.exchange(b"", lambda parts: parts[:1])

    def scattered(self, parts: Sequence[Any]) -> list[Any]:
        """The part for this worker of each worker's ``parts``, by rank."""
        number = self._channel.next_number()
        for peer in self._others():
            self._channel.post(peer, number, parts[peer])
        return self._from_all(number, parts[self.rank])

    def gathered(self, part: Any) -> list[Any]:
        """Each worker's ``part``, by rank."""
        number = self._channel.next_number()
        self._channel.post(EVERYBODY, number, part)
        return self._from_all(number, part)

    def spread(self, part: Any, root: int) -> Any:
        """The ``part`` of the worker ``root``."""
        number = self._channel.next_number()
        if self.rank != root:
            return self._channel.receive(root, number)
        self._channel.post(EVERYBODY, number, part)
        return part

    def _others(self) -> list[int]:
        """Beginning with the next one, so that not all send to the same worker first."""
        return [(self.rank + step) % self.size for step in range(1, self.size)]

    def _from_all(self, number: int, own: Any) -> list[Any]:
        found = {peer: self._channel.receive(peer, number) for peer in self._others()}
        return [found.get(rank, own) for rank in range(self.size)]


def _divided(message: bytearray) -> tuple[memoryview, memoryview]:
    whole = memoryview(message)
    return whole[:_CODE_BYTES], whole[_CODE_BYTES:]
