"""Messages of workers, and how they travel over pipes: written whole, read piece by piece."""

from __future__ import annotations

import os
import struct
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ORDER, DATA, COMPARE, AGREED, DIFFERS, RESULT, FAILED, LEFT, FINISH = range(9)
"""The kinds of message."""
PARENT = -1
"""The peer that is the process that called ``run``."""
EVERYBODY = -2
"""The peer that is all other workers."""


class Frame(NamedTuple):
    """A message between a worker and the process that called ``run``, or another worker.

    A launcher passes each message of a worker on to ``run``, which sends those for other workers to
    them. Or, if it has a shorter way between its hosts, it takes that for the ``receivers``.
    """

    kind: int
    """A launcher need not look at it."""
    peer: int
    """The other end, by rank, or one of the negative numbers of this module."""
    tag: int
    body: Any
    """Bytes, or anything with their buffer."""

    def receivers(self, sender: int, size: int) -> Sequence[int]:
        """The ranks of the workers for which worker ``sender`` sends it; none if it is for ``run``.

        ``size`` is the number of all workers.
        """
        if self.kind != DATA:
            return ()
        if self.peer == EVERYBODY:
            return [rank for rank in range(size) if rank != sender]
        return [self.peer]

    def sent_by(self, sender: int) -> Frame:
        """The message as its receivers get it."""
        return self._replace(peer=sender)


_HEADER = struct.Struct("<Biqq")
_PIPE_BYTES = 1 << 20
_MOST_BYTES = 1 << 40
"""The longest body; a larger number is not the length of one."""


class GarbledError(Exception):
    """A pipe gives bytes that are not a message."""


class Reader:
    """Puts frames together from what a pipe gives; large bodies are read where they stay."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe
        self._start(bytearray(_HEADER.size))
        self._header: tuple[int, int, int, int] | None = None

    def _start(self, target: bytearray) -> None:
        self._target = target
        self._left = memoryview(target)

    def read(self) -> Iterator[Frame] | None:
        """The frames that one read completes, or None at the end of the pipe.

        Raises:
            GarbledError: at the frame that is none; then this pipe is at its end.
        """
        count = os.readv(self._pipe, [self._left])
        if count == 0:
            return None
        self._left = self._left[count:]
        return self._completed()

    def _completed(self) -> Iterator[Frame]:
        while not self._left:
            if self._header is None:
                kind, peer, tag, count = _HEADER.unpack(self._target)
                if not (ORDER <= kind <= FINISH and 0 <= count <= _MOST_BYTES):
                    raise GarbledError
                self._header = kind, peer, tag, count
                self._start(bytearray(count))
                continue
            kind, peer, tag, _ = self._header
            body = self._target
            self._header = None
            self._start(bytearray(_HEADER.size))
            yield Frame(kind, peer, tag, body)


class Writer:
    """Frames that wait for a pipe, which is not waited for."""

    def __init__(self, pipe: int) -> None:
        os.set_blocking(pipe, False)
        self._pipe = pipe
        self._waiting: deque[memoryview] = deque()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, frame: Frame) -> None:
        """Queue a frame."""
        self._waiting.extend(pieces_of(frame))

    def write(self) -> None:
        """Write what the pipe takes now; drops everything if its reader is gone."""
        try:
            while self._waiting:
                piece = self._waiting[0]
                count = os.write(self._pipe, piece)
                if count == len(piece):
                    self._waiting.popleft()
                else:
                    self._waiting[0] = piece[count:]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._waiting.clear()


def pieces_of(frame: Frame) -> list[memoryview]:
    """The bytes of a frame, without copying its body; a tuple is one body in several pieces."""
    bodies = frame.body if isinstance(frame.body, tuple) else (frame.body,)
    # NumPy's arrays have other shapes and formats; no cast has a zero in a shape.
    views = [memoryview(body) for body in bodies]
    pieces = [view.cast("B") for view in views if view.nbytes]
    count = sum(piece.nbytes for piece in pieces)
    return [memoryview(_HEADER.pack(frame.kind, frame.peer, frame.tag, count)), *pieces]


class WholeWriter:
    """Frames that are waited for, and written whole also where a signal's handler raises."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe
        self._pieces: list[memoryview] = []
        self._written: list[int] = []
        """Counts of bytes of the first piece."""

    def write(self, frame: Frame) -> None:
        """Write the rest of the last frame, if its writing was interrupted, and this one."""
        self._pieces.extend(pieces_of(frame))
        while self._pieces:
            rest = self._pieces[0][sum(self._written) :]
            # No handler runs between the system's call and the note of its result.
            self._written.extend(map(os.write, (self._pipe,), (rest,)))
            if sum(self._written) == len(self._pieces[0]):
                self._pieces, self._written = self._pieces[1:], []


def widen(pipe: int) -> None:
    """Let a pipe hold more, where the system can, so that large messages take few turns."""
    try:
        from fcntl import F_SETPIPE_SZ, fcntl

        fcntl(pipe, F_SETPIPE_SZ, _PIPE_BYTES)
    except (ImportError, PermissionError):  # not on macOS; or this user's pipes hold enough
        return
