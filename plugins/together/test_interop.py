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


def run(code):
    environment = {**os.environ, "UNIDEV_SIMULATE": "0", "UNIDEV_BACKEND": "numpy"}
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300
    )


def test_arrays_can_be_written_to_where_the_tensors_can():
    code = """
import numpy as np
import unidev
room = np.zeros(4 * 6 + 64, np.uint8)
start = -room.ctypes.data % 64
x = room[start : start + 24].view(np.float32).reshape(2, 3)
for name in ("torch", "mxnet", "paddle", "tensorflow"):
    y = unidev.convert(x, name, copy=False)
    for copy in (None, False):
        z = unidev.convert(y, "numpy", copy=copy)
        assert np.shares_memory(x, z), name
        assert z.flags.writeable == (name != "tensorflow"), name
    copied = unidev.convert(y, "numpy", copy=True)
    assert copied.flags.writeable and not np.shares_memory(x, copied), name
x.flags.writeable = False
for name in ("torch", "mxnet", "paddle"):
    z = unidev.convert(unidev.convert(x, name), "numpy", copy=False)
    assert z.flags.writeable and not np.shares_memory(x, z), name
z = unidev.convert(unidev.convert(x, "tensorflow", copy=False), "numpy", copy=False)
assert np.shares_memory(x, z) and not z.flags.writeable
"""
    done = run(code)
    assert done.returncode == 0, done.stderr[-3000:]


def test_mxnet_frees_its_capsules_beside_tensorflow():
    code = """
import unidev
unidev.set_backend("mxnet")
unidev.zeros(3)
import mxnet as mx
import unidev_tensorflow.memory.extents
for _ in range(3):
    mx.nd.ones(3).to_dlpack_for_read()  # which nothing takes
"""
    done = run(code)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "Exception ignored" not in done.stderr, done.stderr[-3000:]


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
    done = run(code)
    assert done.returncode == 0, done.stderr[-3000:]
