"""``convert`` between every two frameworks, in one process: the profile ``interop``."""

import pytest
from plugin_suite import check_conforms
from several_frameworks import run

BACKENDS = ("numpy", "torch", "tensorflow", "paddle", "mxnet", "array_api_strict")


@pytest.mark.parametrize("simulated", [0, 2])
@pytest.mark.parametrize("backend", BACKENDS)
def test_it_converts_to_and_from_each_other_framework(backend, simulated, tmp_path):
    check_conforms(backend, "interop", simulated, tmp_path, also=("frameworks_warm",))


def test_the_command_imports_the_other_frameworks_by_itself():
    words = "-m unidev conform paddle --profile interop --simulate 3 --only converting.shared"
    done = run([*words.split(), "--no-host"], simulate="0", is_fresh=True)
    assert "(1 check in 1 configuration: 1 pass)" in done.stdout


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
    run(["-c", code], simulate="0", backend="numpy")


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
    done = run(["-c", code], simulate="0", backend="numpy", is_fresh=True)
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
    run(["-c", code], simulate="0", backend="numpy")
