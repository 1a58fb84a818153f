"""Functions that tests give to ``unidev.run``: how tensors travel that no engine carries."""

from __future__ import annotations

import os
import signal
from typing import Any

import unidev

SENT_BYTES = 400_000


def killed_within_an_exchange() -> None:
    """Worker 1 ends where the others have written and wait for the part that it combines."""
    from unidev.distributed.exchange import by_memory

    def killed(*_: Any) -> Any:
        os.kill(os.getpid(), signal.SIGKILL)

    if unidev.group().rank == 1:
        by_memory.combined = killed
    unidev.group().all_reduce(unidev.ones(SENT_BYTES // 4))


def sent_by_channel() -> int:
    """The bytes that this worker writes to its channel in one ``all_reduce``."""
    from unidev.distributed.messages import channel
    from unidev.worker_host.frames import pieces_of

    written: list[int] = []
    write_all = channel.write_all

    def counting(pipe: int, frame: Any) -> None:
        written.append(sum(piece.nbytes for piece in pieces_of(frame)))
        write_all(pipe, frame)

    channel.write_all = counting
    total = unidev.group().all_reduce(unidev.ones(SENT_BYTES // 4))
    channel.write_all = write_all
    assert set(unidev.to_numpy(total).tolist()) == {float(unidev.group().size)}
    return sum(written)
