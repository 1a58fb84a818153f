"""Threads, in a fresh process each: which of them imports Paddle must not matter."""

import os
import subprocess
import sys

import pytest

CODE = """
import threading
import unidev

def use(found):
    found.append(unidev.to_numpy(unidev.copy_to(unidev.zeros(2), "cpu")).tolist())

found = []
for _ in range(3):  # the first imports Paddle, and ends before the second begins
    thread = threading.Thread(target=use, args=[found])
    thread.start()
    thread.join()
use(found)
import paddle
assert paddle.in_dynamic_mode()
print(found)
"""


@pytest.mark.parametrize("simulated", ["", "2"])
def test_paddle_stays_dynamic_after_the_thread_that_imported_it_has_ended(simulated):
    environment = {**os.environ, "UNIDEV_BACKEND": "paddle", "UNIDEV_SIMULATE": simulated}
    done = subprocess.run(
        [sys.executable, "-c", CODE], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{[[0.0, 0.0]] * 4}\n"
