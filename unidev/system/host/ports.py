"""Ports at which the frameworks' engines listen."""

from __future__ import annotations

import hashlib
import random
import socket
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LOOPBACK = "127.0.0.1"
_LOWEST, _END = 10_000, 32_768
"""Above the ports that services have by convention, below those that systems give out by default
(Linux from 32768, others from 49152)."""
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LEAST = 1_000
"""Fewer ports than this are too few to draw from: two runs would often draw the same."""


def free_ports(counts: Sequence[int]) -> list[list[int]]:
    """As many different free ports of the loopback interface as ``counts`` asks for.

    None stays open: an engine listens there later. So they are none that the system gives out,
    for a connection or a socket without a port of its own: any process could get it meanwhile.
    """
    with ExitStack() as open_ones:
        found = _found(open_ones)
        return [[next(found) for _ in range(count)] for count in counts]


def port_for(text: str) -> int:
    """A port that ``text`` gives on every host: for processes that cannot tell one another."""
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return _LOWEST + int.from_bytes(digest, "little") % (_END - _LOWEST)


def _found(open_ones: ExitStack) -> Iterator[int]:
    for port in _drawn():
        bound = open_ones.enter_context(socket.socket())
        with suppress(OSError):  # another process has it
            bound.bind((LOOPBACK, port))
            yield int(bound.getsockname()[1])
    raise OSError("no port of the loopback interface is free.")


def _drawn() -> Iterator[int]:
    """All ports to try, in an order that another run does not have; 0 is any that is free."""
    end = _first_given_out()
    if end - _LOWEST < _LEAST:
        while True:
            yield 0
    yield from random.Random().sample(range(_LOWEST, end), end - _LOWEST)  # noqa: S311  no secret


def _first_given_out() -> int:
    with suppress(OSError, ValueError):
        return int(_RANGE.read_text().split()[0])
    return _END
