"""A process that has imported what the workers of a host need, and forks into each of them.

The forks are not children of the process that starts the template, which reports their ends to it.
What is imported before a fork, and not written to after it, is in memory once.
"""

from __future__ import annotations

import ctypes
import errno
import gc
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from unidev.system.child_processes import describe_exit, end_group
from unidev.system.host.guarding import end_with_parent
from unidev.system.processes import initialised_by

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from unidev.system.host.events import Job

_MESSAGE_BYTES = 1 << 18
_PART = 1 << 15
_MOST_FILES = 8
_ALL = b"."
_LOOK_S = 0.005
_END_S = 5.0


class Fork:
    """A process forked from a template."""

    epitaph = ""
    """The end of the template, if it ended with that."""
    returncode: Any = None

    def __init__(self, template: Template, pid: int) -> None:
        self._template = template
        self.pid = pid

    def poll(self) -> int | None:
        """Its exit code, or None."""
        if self.returncode is None:
            self._template.read()
        return self.returncode  # type: ignore[no-any-return]

    def wait(self, timeout: float) -> int | None:
        """Wait for its end, but not longer; its exit code, or None."""
        until = time.monotonic() + timeout
        while self.poll() is None and time.monotonic() < until:
            time.sleep(_LOOK_S)
        return self.poll()


class Template:
    """The starter's end of it."""

    rank = -1

    def __init__(
        self, command: Sequence[str], statements: str, environment: Mapping[str, str],
        streams: Sequence[int], files: Sequence[int],
    ) -> None:  # fmt: skip
        """Start it; it prints to ``streams`` until it forks, and its forks inherit ``files``."""
        self._forks: dict[int, Fork] = {}
        self._is_complete = False
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603  our own interpreter
                [*command, str(os.getpid()), str(theirs.fileno())], env=environment,
                stdin=subprocess.DEVNULL, stdout=streams[0], stderr=streams[1],
                pass_fds=[theirs.fileno(), *files], start_new_session=True,
            )  # fmt: skip
        with suppress(BrokenPipeError, ConnectionResetError):  # it has ended
            for at in range(0, len(statements), _PART):
                self.socket.send(statements[at : at + _PART].encode())
            self.socket.send(_ALL)

    def fork(
        self, job: Job, files: Sequence[int], words: Sequence[int],
        wait_for: Callable[[socket.socket], None],
    ) -> Fork | None:  # fmt: skip
        """A fork that executes ``job.program``; None if it does not fork, or has ended.

        Its stdout and stderr are the first two of ``files``; its arguments are its parent's number,
        those of the other files, and ``words``. ``wait_for`` waits for an answer.
        """
        answer = b""
        with suppress(BrokenPipeError, ConnectionResetError):  # it has ended
            request = pickle.dumps((job.program, words, dict(job.environment)))
            socket.send_fds(self.socket, [request], files)
            wait_for(self.socket)
            answer = self.socket.recv(_MESSAGE_BYTES)
        pid = int(answer or 0)
        if pid < 0:
            raise OSError(-pid, os.strerror(-pid))
        return self._forks.setdefault(pid, Fork(self, pid)) if pid else None

    def all_forked(self) -> None:
        """Let it wait for the ends of its forks."""
        with suppress(BrokenPipeError):
            self.socket.send(_ALL)
        self.socket.setblocking(False)
        self._is_complete = True

    def read(self) -> list[Any] | None:
        """Note the ends that it has reported; no events, or None if no more can come."""
        with suppress(BlockingIOError):
            with suppress(ConnectionResetError):
                while heard := self.socket.recv(_MESSAGE_BYTES):
                    pid, code = map(int, heard.split())
                    self._forks[pid].returncode = code
            for fork in self._forks.values():
                if fork.returncode is None:  # Linux has killed it, with its parent
                    fork.returncode = -signal.SIGKILL
                    how = describe_exit(self._process.wait())
                    fork.epitaph = f"The process that it was forked from has ended: {how}."
            return None
        return []

    def end(self) -> None:
        """End it, after its forks: it is to wait for them, so that no dead process is left."""
        until = time.monotonic() + _END_S
        while self._is_complete and self._process.poll() is None and time.monotonic() < until:
            self.read()
            time.sleep(_LOOK_S)
        end_group(self._process)
        self.socket.close()


def main() -> str:
    """``main PARENT SOCKET``: import, fork for each request, and report all ends.

    Returns in each fork, with the statements that it is to execute.
    """
    parent, own = map(int, sys.argv[1:])
    end_with_parent(parent)
    os.set_inheritable(own, False)
    requests = socket.socket(fileno=own)
    statements = b"".join(iter(lambda: requests.recv(_MESSAGE_BYTES), _ALL))
    try:
        exec(statements, {})  # noqa: S102  our starter's
        sys.stdout.flush()
        sys.stderr.flush()
        ctypes.CDLL(None).fflush(None)
    except BaseException:  # noqa: BLE001  a framework's import; each worker, started anew, meets it
        os._exit(1)
    may_fork = threading.active_count() == 1 and not initialised_by(os.getpid())
    for stream in (1, 2):
        os.dup2(0, stream)  # whoever reads at the other end is not to wait for this process
    gc.freeze()
    this = os.getpid()
    while True:
        message, files, flags, _ = socket.recv_fds(requests, _MESSAGE_BYTES, _MOST_FILES)
        if message in (b"", _ALL):  # the first of a starter that has ended
            break
        is_cut = flags & socket.MSG_CTRUNC  # there were too many open files
        answer = -errno.EMFILE if is_cut else _fork() if may_fork else 0
        if answer is None:
            requests.close()
            wanted, words, environment = pickle.loads(message)  # noqa: S301  our starter's
            os.environ.update(environment)
            for number in (1, 2):  # of which nothing is buffered
                os.dup2(files[number - 1], number)
                os.close(files[number - 1])
            sys.argv[1:] = map(str, [this, *files[2:], *words])
            return str(wanted)
        for each in files:
            os.close(each)
        requests.send(str(answer).encode())
    with suppress(ChildProcessError, BrokenPipeError):
        while True:
            pid, status = os.wait()
            requests.send(f"{pid} {os.waitstatus_to_exitcode(status)}".encode())
    os._exit(0)


def _fork() -> int | None:
    """The child's number once it leads a session, which signals need; -errno; None in the child."""
    try:
        leads, led = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python 3.12 warns of OpenBLAS's thread
            pid = os.fork()
    except OSError as error:
        return -(error.errno or errno.EAGAIN)
    if not pid:
        os.setsid()
    os.close(led)
    if pid:
        os.read(leads, 1)
    os.close(leads)
    return pid or None
