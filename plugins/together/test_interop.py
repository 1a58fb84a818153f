"""``convert`` between every two frameworks, in one process: the profile ``interop``."""

import os
import subprocess
import sys

import pytest

BACKENDS = ("numpy", "torch", "tensorflow", "paddle", "mxnet")


@pytest.mark.parametrize("backend", BACKENDS)
def test_it_converts_to_and_from_each_other_framework(backend):
    command = [sys.executable, "-m", "unidev", "conform", backend, "--profile", "interop"]
    done = subprocess.run(
        [*command, "--simulate", "2"],  # and on the host alone
        env={**os.environ, "UNIDEV_BACKEND": ""},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]


def test_a_tensor_goes_round_all_frameworks_on_one_memory():
    code = """
import numpy as np
import unidev
room = np.zeros(4 * 6 + 64, np.uint8)
start = -room.ctypes.data % 64
x = room[start : start + 24].view(np.float32).reshape(2, 3)
y = x
for name in ("torch", "mxnet", "paddle", "tensorflow", "numpy"):
    y = unidev.convert(y, name, copy=False)
assert np.shares_memory(x, y) and not y.flags.writeable
x[0, 0] = 7
assert y[0, 0] == 7
"""
    environment = {**os.environ, "UNIDEV_SIMULATE": "0", "UNIDEV_BACKEND": "numpy"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
