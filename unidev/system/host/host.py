"""The workers of a run that are on one host: started, heard, and ended together."""

from __future__ import annotations

import os
import pickle
import select
import selectors
import struct
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from unidev.errors import UnsupportedOperation
from unidev.system.child_processes import ask_for_traceback, end_group
from unidev.system.extras import check_extra
from unidev.system.host.board import Board, board_bytes
from unidev.system.host.events import Ended, Event, Output, Progress
from unidev.system.host.frames import (
    FAILED,
    ORDER,
    PARENT,
    Frame,
    GarbledError,
    Reader,
    Writer,
    widen,
)
from unidev.system.host.guarding import end_marked, new_mark, with_mark
from unidev.system.host.shared_memory import files_for
from unidev.system.host.template import Fork, Template

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator, Sequence
    from typing import IO

    from unidev.system.host.events import HelperProcess, Job

_ROOT = str(Path(__file__).parents[3])
_TICK_S = 0.1
_LINE_BYTES = 64 * 1024
"""The longest line that is shown as one."""
_READ_BYTES = 4096
"""The most that a read takes of a worker's output: messages come in between, however long it is."""
_STACK_BYTES = 16 * 1024
FILES = 5
"""Open here for each worker: the ends of four pipes, and the file of ``faulthandler``."""
_GARBLED = {
    "what": "wrote to the pipe of its messages what is not one: its function, or a library, writes "
    "to a file that it has not opened",
    "traceback": "",
    "is_consequence": False,
}
_MOST_READS = 1000
"""The most reads of the messages of a worker that has ended."""


class _Worker(NamedTuple):
    rank: int
    place: int
    process: subprocess.Popen[bytes] | Fork
    writer: Writer
    crash: IO[bytes]
    """Where ``faulthandler`` writes."""


class WorkerHost:
    """The workers of one run on this host: processes, each the leader of a session of its own.

    Its methods do for these workers what those of ``Launcher`` do for all; ``start_helpers`` alone
    starts helpers where the workers are not started yet. They are called from one thread, but for
    ``wake``. All that workers start has a mark in its environment, by which ``end`` finds it; if
    this process is killed, a guard beside it does.

    Raises:
        UnsupportedOperation: on Windows; without psutil.
    """

    def __init__(self) -> None:
        if sys.platform == "win32":
            raise UnsupportedOperation("unidev.run", "its workers inherit pipes as POSIX has them")
        check_extra("distributed", "unidev.run")
        self._selector = selectors.DefaultSelector()
        self._workers: dict[int, _Worker] = {}
        self._running: set[int] = set()
        self._seen: dict[int, Progress] = {}
        self._helpers: list[subprocess.Popen[bytes]] = []
        self._mark = new_mark()
        self._guard: subprocess.Popen[bytes] | None = None
        self._template: Template | None = None
        self._early: list[Event] = []
        """What workers have sent and printed before all were started."""
        self._files: dict[int, FileIO] = {}
        """Ends of pipes. After Ctrl-C one may be closed twice, which a number must not be."""
        self._crashes: list[IO[bytes]] = []
        self._board: Board | None = None
        wakeup, self._wakeup_end = self._pipe()
        os.set_blocking(self._wakeup_end, False)
        self._wakeup = _Wakeup(wakeup)
        self._selector.register(wakeup, selectors.EVENT_READ, self._wakeup)

    def start(self, jobs: Sequence[Job], helpers: Sequence[HelperProcess]) -> None:
        """Start the helpers, then the workers, and send each its order."""
        with tempfile.TemporaryFile() as file, files_for(len(jobs)) as shared:
            # Zeros: a hole that the disk has no room for ends whoever looks at it, by SIGBUS.
            file.write(bytes(board_bytes(len(jobs))))
            file.flush()
            self._board = Board(file.fileno(), len(jobs))
            self.start_helpers(helpers)  # and the guard, before the first worker
            for place, job in enumerate(jobs):
                self._start_worker(job, jobs, [file.fileno(), place, len(jobs), *shared])
            if self._template is not None:
                self._template.all_forked()
                ends = self._template.socket
                self._selector.register(ends, selectors.EVENT_READ, self._template)

    def start_helpers(self, helpers: Sequence[HelperProcess]) -> None:
        """Start processes beside the workers."""
        if self._guard is None:
            quiet = {"stdin": subprocess.PIPE, "stderr": subprocess.DEVNULL}
            self._guard = _start_beside("keep_guard", self._mark, **quiet)
        for helper in helpers:
            environment = {**os.environ, **helper.environment, **with_mark(self._mark)}
            started = _start_beside("main", *helper.arguments, env=environment)
            self._helpers.append(started)

    def wake(self) -> None:
        """Let ``events`` return, which waits in another thread."""
        os.write(self._wakeup_end, b"\0")

    def send(self, rank: int, frame: Frame) -> None:
        """Queue a message."""
        worker = self._workers[rank]
        if rank in self._running:
            worker.writer.add(frame)
            worker.writer.write()

    def events(self, timeout_s: float) -> list[Event]:
        """The events since the last call; waits up to ``timeout_s`` for the first."""
        until, found = time.monotonic() + timeout_s, self._early
        self._early = []
        while not found:
            for worker in self._running_workers():
                worker.writer.write()
            is_writing = any(worker.writer for worker in self._running_workers())
            wait_s = min(_TICK_S, max(0.0, until - time.monotonic()))
            found += self._read(0.001 if is_writing else wait_s)
            found += self._ends()
            found += self._news()
            if time.monotonic() >= until or self._wakeup.was_written():
                break
        return found

    def hindrance(self, rank: int) -> str | None:
        """By the system's state of its process."""
        import psutil

        with suppress(psutil.NoSuchProcess):
            status = psutil.Process(self._workers[rank].process.pid).status()
            return "it is stopped (SIGSTOP)" if status == psutil.STATUS_STOPPED else None
        return None

    def stack_of(self, rank: int) -> str:
        """Where it is, by ``faulthandler``, which ends it."""
        worker = self._workers[rank]
        if worker.process.poll() is None:
            ask_for_traceback(worker.process, 5)
        return _stack(worker.crash)

    def end(self) -> None:
        """End all that was started here."""
        for process in [worker.process for worker in self._workers.values()] + self._helpers:
            end_group(process)
        if self._template is not None:
            self._template.end()
        if self._guard is not None:
            end_marked(self._mark)
            with suppress(OSError):  # it was killed
                self._guard.communicate(b".")
        for file in (*self._files.values(), *self._crashes):
            file.close()
        self._selector.close()

    # -- inside --------------------------------------------------------------------------------

    def _start_worker(self, job: Job, jobs: Sequence[Job], words: list[int]) -> None:
        """Start it; ``words`` are the board's file, its place, their number, and shared files."""
        self._crashes.append(tempfile.TemporaryFile())  # noqa: SIM115  closed by `end`
        crash = self._crashes[-1]
        down, up, out, err = (self._pipe() for _ in range(4))
        theirs = [out[1], err[1], down[0], up[1], crash.fileno()]
        self._selector.register(up[0], selectors.EVENT_READ, _Messages(job.rank, up[0]))
        for stream, pipe in ((1, out[0]), (2, err[0])):
            self._selector.register(pipe, selectors.EVENT_READ, _Lines(job.rank, stream, pipe))
        try:
            process = self._forked(job, jobs, theirs, words) or subprocess.Popen(  # noqa: S603  our own interpreter
                [*_python(job.program), *map(str, [os.getpid(), *theirs[2:], *words])],
                env={**os.environ, **job.environment, **with_mark(self._mark)},
                stdin=subprocess.DEVNULL,
                stdout=out[1],
                stderr=err[1],
                pass_fds=[*theirs[2:], words[0], *words[3:]],
                start_new_session=True,
            )  # fmt: skip
        finally:
            for fd in theirs[:4]:
                self._files[fd].close()
        widen(up[0])
        widen(down[1])
        worker = _Worker(job.rank, words[1], process, Writer(down[1]), crash)
        self._workers[job.rank] = worker
        self._running.add(job.rank)
        self.send(job.rank, Frame(ORDER, PARENT, 0, job.order))

    def _forked(
        self, job: Job, jobs: Sequence[Job], files: Sequence[int], words: list[int]
    ) -> Fork | None:
        """The worker as a fork of the template, which the first one starts; None if it is none."""
        if not job.template or len(jobs) == 1 or sys.platform != "linux":
            return None
        if self._template is None:
            same = set.intersection(*(set(each.environment.items()) for each in jobs))
            self._template = Template(
                _python("from unidev.system.host.template import main; exec(main())"), job.template,
                {**os.environ, **dict(same), **with_mark(self._mark)}, files[:2],
                [words[0], *words[3:]],
            )  # fmt: skip
        return self._template.fork(job, files, words, self._read_until)

    def _read_until(self, answer: socket.socket) -> None:
        """Wait for an answer of the template, whose output may fill a pipe meanwhile."""
        poller = select.poll()
        poller.register(answer, select.POLLIN)
        while not poller.poll(1000 * _TICK_S):
            self._early += self._read(0)

    def _read(self, timeout_s: float) -> list[Event]:
        """The events of what is there to read; waits for it up to ``timeout_s``."""
        found = list[Event]()
        for key, _ in self._selector.select(timeout_s):
            source: _Messages | _Lines | _Wakeup | Template = key.data
            events = source.read()
            if events is not None:
                found += events
                continue
            self._selector.unregister(key.fd)
            if key.fd in self._files:
                self._files[key.fd].close()
        return found

    def _pipe(self) -> tuple[int, int]:
        """Closed by ``end``, also if there are no more files for what comes after it."""
        read, write = os.pipe()
        self._files |= {read: FileIO(read, "r"), write: FileIO(write, "w")}
        return read, write

    def _running_workers(self) -> list[_Worker]:
        return [self._workers[rank] for rank in sorted(self._running)]

    def _ends(self) -> Iterator[Event]:
        for worker in self._running_workers():
            code = worker.process.poll()
            if code is not None:
                yield from self._rest_of(worker)
                self._running.remove(worker.rank)
                how = getattr(worker.process, "epitaph", "")
                yield Event(worker.rank, Ended(code, _stack(worker.crash) or how))

    def _rest_of(self, worker: _Worker) -> Iterator[Event]:
        """The rest of an ended worker's messages and output; not what its children write later."""
        for key in list(self._selector.get_map().values()):
            if key.data.rank == worker.rank:
                for _ in range(key.data.reads_left()):
                    events = key.data.read() if _has_data(key.fd) else None
                    if events is None:
                        break
                    yield from events

    def _news(self) -> Iterator[Event]:
        for worker in self._workers.values():
            assert self._board is not None
            now = self._board.read(worker.place)
            if now != self._seen.get(worker.rank):
                self._seen[worker.rank] = now
                yield Event(worker.rank, now)


class _Wakeup:
    """A pipe by which another thread wakes the one that waits."""

    rank = -1

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe
        self._is_written = False

    def read(self) -> list[Event]:
        """Note that it was written to."""
        os.read(self._pipe, _READ_BYTES)
        self._is_written = True
        return []

    def was_written(self) -> bool:
        """Whether it was written to since the last question."""
        is_rung, self._is_written = self._is_written, False
        return is_rung


class _Messages:
    """The messages of a worker."""

    def __init__(self, rank: int, pipe: int) -> None:
        self.rank = rank
        self._reader = Reader(pipe)

    def read(self) -> list[Event] | None:
        """The messages that one read completes; None at the end."""
        try:
            frames = self._reader.read()
            if frames is None:
                return None
            return [Event(self.rank, frame) for frame in frames]
        except GarbledError:
            return [Event(self.rank, Frame(FAILED, PARENT, 0, pickle.dumps(_GARBLED)))]

    def reads_left(self) -> int:
        """How often to read at most once the worker has ended."""
        return _MOST_READS


class _Lines:
    """The output of a worker, line by line."""

    def __init__(self, rank: int, stream: int, pipe: int) -> None:
        self.rank = rank
        self._stream = stream
        self._pipe = pipe
        self._rest = b""

    def read(self) -> list[Event] | None:
        """The lines that one read completes; at the end, the last one, though it has no end."""
        found = os.read(self._pipe, _READ_BYTES)
        if not found and not self._rest:
            return None
        *lines, self._rest = (self._rest + (found or b"\n")).split(b"\n")
        if len(self._rest) > _LINE_BYTES:
            lines, self._rest = [*lines, self._rest], b""
        texts = [line.decode(errors="replace").rstrip("\r") for line in lines]
        return [Event(self.rank, Output(self._stream, text)) for text in texts]

    def reads_left(self) -> int:
        """As often as what is in the pipe needs: a child of the worker may write for ever."""
        from fcntl import ioctl
        from termios import FIONREAD

        (waiting,) = struct.unpack("i", ioctl(self._pipe, FIONREAD, bytes(4)))
        # Twice more at its end, for a last line without an end and for the end itself.
        return int(waiting) // _READ_BYTES + 3


def _has_data(pipe: int) -> bool:
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        return bool(selector.select(0))


def _stack(crash: IO[bytes]) -> str:
    crash.seek(0)
    return crash.read(_STACK_BYTES).decode(errors="replace").strip()


def _python(program: str) -> list[str]:
    # Not from the folder in which `run` was called: a file in it may have the name of a module.
    path = f"import sys; sys.path[:] = [{_ROOT!r}, *filter(None, sys.path)]"
    return [sys.executable, "-c", f"{path}; {program}"]


def _start_beside(function: str, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    """Start a function of ``guarding``, which ends with this process."""
    program = f"from unidev.system.host.guarding import {function}; {function}()"
    command = [*_python(program), str(os.getpid()), *arguments]
    options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, **options}
    return subprocess.Popen(command, start_new_session=True, **options)  # noqa: S603  our own
