"""A worker's end of the pipes to the process that called ``run``: bytes to and from the others."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from unidev.errors import CollectiveError, UnsupportedOperation
from unidev.parallel.messages.comparing import difference
from unidev.system.host.board import Mark
from unidev.system.host.frames import (
    AGREED,
    COMPARE,
    DATA,
    DIFFERS,
    EVERYBODY,
    FINISH,
    LEFT,
    ORDER,
    PARENT,
    Frame,
    Reader,
    WholeWriter,
)
from unidev.system.host.neighbours import shared_by_all

if TYPE_CHECKING:
    from collections.abc import Callable

    from unidev.contract.group_engine import GroupEngine
    from unidev.device import Device
    from unidev.parallel.messages.comparing import Description
    from unidev.system.host.neighbours import Shared
    from unidev.system.host.shared_memory import SharedMemory

_NEWS_S, _LOOK_S = 2.0, 0.01
"""How long to wait for a reason, and between two looks."""


class Channel:
    """Messages to the parent and, through it, to the other workers.

    A thread reads. When the pipe ends, the parent has ended, and so does this process with all
    that it has started.
    """

    def __init__(self, up: int, down: int) -> None:
        self.process = os.getpid()
        self.rank = 0
        """Known once the order has come."""
        self.memory: SharedMemory | None = None
        """That of all workers, if they are on one host."""
        self._writer = WholeWriter(up)
        self._reader = Reader(down)
        self._writing = threading.Lock()
        self._arrived = threading.Condition()
        self._frames: dict[tuple[int, int], Frame] = {}
        self._number = 0
        self._heard = ""
        self.on_heard: Callable[[str], None] = lambda _: None
        """Called in the thread that reads, when another worker has given up."""
        threading.Thread(target=self._read, name="unidev-channel", daemon=True).start()

    # -- with the parent -----------------------------------------------------------------------

    def order(self) -> Any:
        """The first message of the parent, unpickled."""
        return pickle.loads(self._take(PARENT, ORDER).body)  # noqa: S301  our own parent's

    def report(self, kind: int, body: bytes) -> None:
        """Send the parent a result or a failure."""
        self._send(Frame(kind, PARENT, 0, body))

    def wait_for_finish(self) -> None:
        """Wait until all workers have returned."""
        self._take(PARENT, FINISH)

    def compare(self, number: int, description: Description) -> str | None:
        """How the workers differ at collective ``number``, or None; blocks for all of them."""
        self._send(Frame(COMPARE, PARENT, number, pickle.dumps(description)))
        reply = self._take(PARENT, _reply(number))
        return bytes(reply.body).decode() if reply.kind == DIFFERS else None

    def give_up(self, said: str, *, is_consequence: bool) -> None:
        """Tell all others, through the parent; those that wait in shared memory hear it there."""
        if self.memory is not None:
            self.memory.give_up()
        self._send(Frame(LEFT, PARENT, is_consequence, said.encode()))

    def heard(self, wait_s: float = 0.0) -> str:
        """What another worker has said by ``give_up``, or "", if none does within ``wait_s``."""
        if wait_s and not self._heard:
            with self._arrived:
                self._arrived.wait_for(lambda: self._heard, wait_s)
        return self._heard

    # -- with the other workers, who call the same methods in the same order -------------------

    def next_number(self) -> int:
        """The tag of one more exchange."""
        self._number += 1
        return self._number

    def post(self, peer: int, number: int, *pieces: Any) -> None:
        """Send bytes to a worker, or to ``EVERYBODY`` else; they arrive as one."""
        self._send(Frame(DATA, peer, number, pieces))

    def shared(self, content: bytes) -> bytes:
        """The ``content`` of worker 0, on every worker."""
        number = self.next_number()
        if self.rank:
            return bytes(self.receive(0, number))
        self.post(EVERYBODY, number, content)
        return content

    def receive(self, peer: int, number: int) -> bytearray:
        """Wait for what ``peer`` posts under that number."""
        body: bytearray = self._take(peer, number).body
        return body

    def _send(self, frame: Frame) -> None:
        check_process(self.process)  # two that write would mix their messages
        with self._writing, suppress(BrokenPipeError):  # then the parent is gone: see `_read`
            self._writer.write(frame)

    def _take(self, peer: int, tag: int) -> Frame:
        check_process(self.process)  # the thread that reads is not in a fork
        is_of_parent = peer == PARENT and tag <= FINISH
        with self._arrived:
            self._arrived.wait_for(
                lambda: (peer, tag) in self._frames or (self._heard and not is_of_parent)
            )
            if (peer, tag) not in self._frames:
                raise CollectiveError(self._heard)
            return self._frames.pop((peer, tag))

    def _read(self) -> None:
        while (frames := self._reader.read()) is not None:
            for frame in frames:
                with self._arrived:
                    if frame.kind == LEFT:
                        self._heard = self._heard or bytes(frame.body).decode()
                        self.on_heard(self._heard)
                    else:
                        self._frames[_key(frame)] = frame
                    self._arrived.notify_all()
        os.killpg(0, signal.SIGKILL)


class EngineLink:
    """The counterpart of a run's ``Channel`` by which ``Group`` agrees, through the engine."""

    def __init__(self, engine: GroupEngine, device: Device, rank: int) -> None:
        self.engine = engine
        self._device = engine.backend.cpu if engine.on_host else device
        self._rank = rank
        self._heard = ""
        self._shared: Shared | None = None

    @property
    def memory(self) -> SharedMemory | None:
        """That of all workers, if they are on one host."""
        return None if self._shared is None else self._shared.memory

    def share(self, size: int, timeout_s: float) -> Mark:
        """Share memory with the other ``size`` workers, if they are on one host; a collective."""
        self._shared = shared_by_all(self._gathered, self._rank, size, timeout_s)
        return Mark.alone() if self._shared is None else self._shared.mark

    def compare(self, number: int, description: Description) -> str | None:  # noqa: ARG002  all come in one order
        """How the workers differ, or None; blocks for all of them."""
        found = [pickle.loads(each) for each in self._gathered(pickle.dumps(description))]  # noqa: S301  our own group's
        return difference(dict(enumerate(found)))

    def shared(self, content: bytes) -> bytes:
        """The ``content`` of worker 0, on every worker."""
        return self._gathered(content if self._rank == 0 else b"")[0]

    def give_up(self, said: str, *, is_consequence: bool) -> None:  # noqa: ARG002  nobody watches
        """Abort the engine; the others read there why."""
        if self._shared is not None:
            self._shared.mark.give_up()
            self._shared.memory.give_up()
        threading.Thread(target=self.engine.abort, args=(said,), daemon=True).start()

    def heard(self, wait_s: float = 0.0) -> str:
        """The reason of an engine that was aborted, once an exchange has failed."""
        if not self._heard and self._shared is None and wait_s:
            self._heard = self.engine.aborted()
        elif not self._heard and self._shared is not None:
            self._heard = self._heard_on_host(self._shared, wait_s)
        return self._heard

    def _heard_on_host(self, shared: Shared, wait_s: float) -> str:
        """The engine's reason comes after what the memory shows."""
        until = time.monotonic() + (wait_s or _NEWS_S)
        has_one_given_up, ended = shared.mark.has_one_given_up(), shared.watch.ended()
        if not wait_s and not has_one_given_up and ended is None:
            return ""
        while not (found := self.engine.aborted()) and time.monotonic() < until:
            if (ended := shared.watch.ended()) is not None:
                return self.engine.aborted() or f"worker {ended} has ended."
            time.sleep(_LOOK_S)
        return found or ("a worker has left a collective early." if has_one_given_up else "")

    def _gathered(self, content: bytes) -> list[bytes]:
        engine, backend = self.engine, self.engine.backend
        sizes = [found[0] for found in engine.gather_numbers([len(content)], self._device)]
        padded = np.zeros(max(1, *sizes), "uint8")
        padded[: len(content)] = np.frombuffer(content, "uint8")
        x = backend.from_numpy(padded, backend.dtypes["uint8"], self._device)
        found = zip(engine.all_gather(x), sizes, strict=True)
        return [backend.to_numpy(each)[:size].tobytes() for each, size in found]


def check_process(worker: int) -> None:
    """Raise UnsupportedOperation in another process than ``worker``: in a fork of it."""
    if os.getpid() != worker:
        raise UnsupportedOperation(
            "unidev.group() in a forked child of a worker",
            "only the worker itself exchanges with the others",
        )


def _key(frame: Frame) -> tuple[int, int]:
    if frame.kind == DATA:
        return frame.peer, frame.tag
    return PARENT, _reply(frame.tag) if frame.kind in (AGREED, DIFFERS) else frame.kind


def _reply(number: int) -> int:
    """The tag of a comparison's reply: apart from the kinds, which are tags of single messages."""
    return number + 16
