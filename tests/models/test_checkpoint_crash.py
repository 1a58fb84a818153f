"""Whenever a process is killed or interrupted while it saves, a whole checkpoint is there."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
from typing import TYPE_CHECKING

import endless_saver
import numpy as np
import pytest
from conformance_children import children
from endless_saver import LAYERS, ROUND, WIDTH

import unidev
from unidev.system.atomic_file import SUFFIX

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess
    from pathlib import Path

pytestmark = pytest.mark.slow

KILLS = 200
INTERRUPTS = 8
AT_ONCE = 3


def start(file: Path, turn: int) -> tuple[BaseProcess, Connection]:
    """A process that saves, over and over, from the first word on; and the line to it."""
    line, its_end = multiprocessing.Pipe()
    process = children().Process(target=endless_saver.save, args=(str(file), turn, its_end))
    process.start()
    its_end.close()
    return process, line


def stop(process: BaseProcess, line: Connection, how: signal.Signals, moment: float) -> None:
    """Let it save, and end it so many saves after the first."""
    line.send("go")
    process.join(moment * line.recv())
    assert process.exitcode is None  # it ends when it is ended, and not before
    assert process.pid is not None
    os.kill(process.pid, how)
    process.join(300)
    assert process.exitcode is not None


def turn_saved(file: Path) -> int:
    """Whose checkpoint it is, all of it."""
    model = {f"layer.{i}": np.full(WIDTH, -1, "float32") for i in range(LAYERS)}
    unidev.load_parameters(model, file)
    found = {number for x in model.values() for number in np.unique(x).tolist()}
    assert len(found) == 1, found
    return int(found.pop() // ROUND)


def parts(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.name.endswith(SUFFIX)]


def test_a_process_killed_at_any_moment_of_saving_leaves_a_whole_checkpoint(tmp_path: Path) -> None:
    moments = random.Random(0)
    file = tmp_path / "model.safetensors"
    waiting = [start(file, turn) for turn in range(AT_ONCE)]
    half_written = 0
    try:
        for turn in range(KILLS):
            process, line = waiting.pop(0)
            if turn + AT_ONCE < KILLS:
                waiting.append(start(file, turn + AT_ONCE))
            with line:
                stop(process, line, signal.SIGKILL, moments.uniform(0, 2))
            assert turn_saved(file) == turn
            for part in parts(tmp_path):
                half_written += 1
                part.unlink()
    finally:
        for process, line in waiting:
            process.kill()
            line.close()
    assert half_written > KILLS / 10  # the kills were where they were meant to be: within a save


@pytest.mark.skipif(os.name != "posix", reason="Windows sends no SIGINT to one process")
def test_ctrl_c_at_any_moment_of_saving_leaves_a_whole_checkpoint_and_nothing_else(
    tmp_path: Path,
) -> None:
    moments = random.Random(0)
    file = tmp_path / "model.safetensors"
    for turn in range(INTERRUPTS):
        process, line = start(file, turn)
        with line:
            stop(process, line, signal.SIGINT, moments.uniform(0, 2))
            assert line.recv() == "interrupted"
        assert turn_saved(file) == turn
        assert not parts(tmp_path)
