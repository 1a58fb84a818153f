"""Agreement of all workers on a collective before it begins, on every launcher."""

from __future__ import annotations

from contextlib import contextmanager
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from unidev.distributed.exchange.host_engine import HostEngine
from unidev.distributed.messages.channel import Channel
from unidev.distributed.messages.relay import CodesDiffer, Relay
from unidev.errors import InvalidDataError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from unidev.contract.device import Device
    from unidev.contract.group_engine import GroupEngine
    from unidev.distributed.exchange.membership import Membership
    from unidev.distributed.exchange.trees import Tree


class Agreement:
    """One worker's agreement with the others, by a code of 64 bits for each collective.

    Workers of one host compare codes in memory that they share. Others do so by the framework's
    engine, an exchange of its own; or, where the launcher's channel carries the tensors, by the
    very messages that do. Only if codes differ do the workers send one another what they stand for.
    """

    def __init__(
        self,
        own: Membership,
        engine: Callable[[], GroupEngine],
        device: Callable[[], Device],
        run: Callable[..., Any],
    ) -> None:
        self._own = own
        self._run = run
        """Calls an engine, whose errors are those of a collective."""
        self._engine = engine
        """Joins it, which is a collective, too: all workers come to it at their first one."""
        self._device = device
        self.relay = (
            Relay(own.channel, own.rank, own.size) if isinstance(own.channel, Channel) else None
        )

    @contextmanager
    def reached(
        self, number: int, call: str, code: int, lines: Callable[[], list[str]], *, at_once: bool
    ) -> Iterator[None]:
        """A collective on which all agree, or an error that names the difference, on each worker.

        Unless ``at_once``, the exchange in the block may be what brings the codes.

        Raises:
            InvalidDataError: ``call`` or its ``lines`` differ; the codes stand for them.
        """
        if self._own.channel is None:
            yield
            return
        try:
            self._compare(code, at_once=at_once)
            yield
        except CodesDiffer:
            raise InvalidDataError(self._difference(number, call, lines())) from None

    def _compare(self, code: int, *, at_once: bool) -> None:
        own = self._own
        if own.mark.count == own.size:
            is_same = own.mark.agrees(code)
        elif isinstance(engine := self._engine(), HostEngine):
            assert self.relay is not None
            self.relay.code = code
            is_same = not at_once or self._run(engine.backend, self.relay.agrees, code)
        else:
            device = engine.backend.cpu if engine.on_host else self._device()
            is_same = self._run(engine.backend, engine.agrees, code, device)
        if not is_same:
            raise CodesDiffer

    def _difference(self, number: int, call: str, lines: list[str]) -> str:
        own = self._own
        assert own.channel is not None
        found = own.channel.compare(number, (call, lines))
        own.mark.leave()
        assert found is not None, "codes differ and what they stand for does not"
        return found


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
