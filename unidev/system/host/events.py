"""What a launcher starts, and what it reports: jobs and helpers, and the workers' events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from unidev.system.host.frames import Frame


class Job(NamedTuple):
    """One worker to be started; its parts are ``run``'s, and a launcher passes them on unread."""

    rank: int
    environment: Mapping[str, str]
    """Variables for the worker, which replace those of its host."""
    program: str
    """The statements that the worker's Python executes."""
    order: bytes
    """The body of the first message to it."""
    template: str = ""
    """The statements after which a process may fork into the workers of a host; "": none may."""


@dataclass(frozen=True)
class HelperProcess:
    """A process that a framework needs beside the workers, on the host of rank 0."""

    name: str
    """For messages, such as ``MXNet's scheduler``."""
    arguments: tuple[str, ...]
    """After the interpreter: ``("-c", "import mxnet")``."""
    environment: Mapping[str, str]


class Output(NamedTuple):
    """A line that a worker has printed."""

    stream: int
    """1: stdout; 2: stderr."""
    text: str


class Progress(NamedTuple):
    """How far a worker has come in its collectives."""

    entered: int = 0
    left: int = 0
    operation: int = 0
    """The number of the operation among ``board.OPERATIONS``."""


class Ended(NamedTuple):
    """The end of a worker's process, or the loss of its host."""

    code: int
    """Its exit code; of a signal, the negative number. -9, SIGKILL, if its host is lost."""
    stack: str
    """The output of ``faulthandler``, if the process crashed, or how its host was lost."""


class Event(NamedTuple):
    """News of one worker."""

    rank: int
    news: Frame | Output | Progress | Ended
    """Its class is the kind of the event; a ``Frame`` is a message that the worker has sent."""
