"""Whenever a process is killed or interrupted while it saves, a whole checkpoint is there."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import numpy as np
import pytest

import unidev
from unidev.support.atomic_file import SUFFIX

if TYPE_CHECKING:
    from pathlib import Path

KILLS = 200
AT_ONCE = 3
LAYERS, WIDTH = 6, 10_000
ROUND = 1000
"""Each process saves numbers of its own: from its turn times this on."""

SAVES = f"""
    import sys
    import time
    import numpy as np
    import unidev
    import unidev.support.atomic_file, unidev.support.progress
    import unidev.models.checkpoints.matching, unidev.models.checkpoints.writing

    file, first = sys.argv[1], int(sys.argv[2])
    model = {{f"layer.{{i}}": np.zeros({WIDTH}, "float32") for i in range({LAYERS})}}
    sys.stdin.readline()  # this process may have been started well before it is its turn
    for number in range(first, first + {ROUND}):
        for x in model.values():
            x[...] = number
        started = time.monotonic()
        unidev.save_parameters(model, file)
        if number == first:
            print(time.monotonic() - started, flush=True)
"""


def start(file: Path, turn: int) -> subprocess.Popen[str]:
    """A process that saves, over and over, once it is told to."""
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SAVES), str(file), str(turn * ROUND)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # a quarter of the time that it takes
    )


def stop(process: subprocess.Popen[str], how: signal.Signals, moment: float) -> str:
    """Let it save, and end it so many saves after the first; gives what it said on stderr."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("go\n")
    process.stdin.flush()
    save_s = float(process.stdout.readline())
    with pytest.raises(subprocess.TimeoutExpired):  # it ends when it is ended, and not before
        process.wait(moment * save_s)
    process.send_signal(how)
    return process.communicate(timeout=300)[1]


def turn_saved(file: Path) -> int:
    """Whose checkpoint it is, all of it."""
    model = {f"layer.{i}": np.full(WIDTH, -1, "float32") for i in range(LAYERS)}
    unidev.load_parameters(model, file)
    found = {number for x in model.values() for number in np.unique(x).tolist()}
    assert len(found) == 1, found
    return int(found.pop() // ROUND)


def parts(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.name.endswith(SUFFIX)]


def test_a_process_killed_at_any_moment_of_saving_leaves_a_whole_checkpoint(
    tmp_path: Path,
) -> None:
    moments = random.Random(0)
    file = tmp_path / "model.safetensors"
    waiting = [start(file, turn) for turn in range(AT_ONCE)]
    half_written = 0
    try:
        for turn in range(KILLS):
            process = waiting.pop(0)
            if turn + AT_ONCE < KILLS:
                waiting.append(start(file, turn + AT_ONCE))
            stop(process, signal.SIGKILL, moments.uniform(0, 2))
            assert turn_saved(file) == turn
            for part in parts(tmp_path):
                half_written += 1
                part.unlink()
    finally:
        for process in waiting:
            process.kill()
            process.communicate()
    assert half_written > KILLS / 10  # the kills were where they were meant to be: within a save


@pytest.mark.skipif(os.name != "posix", reason="Windows sends no SIGINT to one process")
def test_ctrl_c_at_any_moment_of_saving_leaves_a_whole_checkpoint_and_nothing_else(
    tmp_path: Path,
) -> None:
    moments = random.Random(0)
    file = tmp_path / "model.safetensors"
    processes = [start(file, turn) for turn in range(8)]
    for turn, process in enumerate(processes):
        said = stop(process, signal.SIGINT, moments.uniform(0, 2))
        assert "KeyboardInterrupt" in said
        assert turn_saved(file) == turn
        assert not parts(tmp_path)
