"""Processes that a run leaves behind, and with them the ports that they listen on."""

from __future__ import annotations

import contextlib
import os
import time
import uuid
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Iterator

_MARK = "CONFORMANCE_RUN"
_LIMIT_S = 30.0
"""The limit that ``unidev.run`` promises; killing takes a busy machine a fraction of it."""
_LOOK_S = 0.05
"""How often it looks: most are not children of this process, so it cannot wait for them."""


@contextlib.contextmanager
def nothing_left() -> Iterator[None]:
    """All processes that are started in the block, by whichever process, end soon after it.

    They are found by a variable of the environment, which each inherits.
    """
    value = uuid.uuid4().hex
    os.environ[_MARK] = value
    try:
        yield
    finally:
        del os.environ[_MARK]
    until = time.monotonic() + _LIMIT_S
    while (left := _marked(value)) and time.monotonic() < until:
        time.sleep(_LOOK_S)
    described = [_described(process) for process in left]
    for process in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    assert not left, f"{_LIMIT_S:g} s after the run there are still: {'; '.join(described)}"


def _marked(value: str) -> list[psutil.Process]:
    return [each for each in psutil.process_iter() if _is_marked(each, value)]


def _is_marked(process: psutil.Process, value: str) -> bool:
    try:
        return process.environ().get(_MARK) == value and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.Error, OSError):  # it has ended, or is another user's
        return False


def _described(process: psutil.Process) -> str:
    try:
        found = process.net_connections("tcp")
        ports = sorted({each.laddr.port for each in found if each.status == psutil.CONN_LISTEN})
        listening = f", listening on {', '.join(map(str, ports))}" if ports else ""
        return f"process {process.pid} ({process.status()}){listening}"
    except psutil.Error:
        return f"process {process.pid}, just ended"
