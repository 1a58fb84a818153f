"""A process that saves checkpoints, over and over, until it is ended."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

import numpy as np

import unidev

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

LAYERS, WIDTH = 6, 10_000
ROUND = 1000
"""Each process saves numbers of its own: from its turn times this on."""


def save(file: str, turn: int, line: Connection) -> None:
    """Wait for a word, save, send the seconds that it took, and save on until Ctrl-C."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    model = {f"layer.{i}": np.zeros(WIDTH, "float32") for i in range(LAYERS)}
    line.recv()  # the process may have been started well before its turn
    try:
        for number in range(turn * ROUND, (turn + 1) * ROUND):
            for x in model.values():
                x[...] = number
            started = time.monotonic()
            unidev.save_parameters(model, file)
            if number == turn * ROUND:
                line.send(time.monotonic() - started)
    except KeyboardInterrupt:
        line.send("interrupted")
