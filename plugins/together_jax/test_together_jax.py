"""JAX beside PyTorch and PaddlePaddle, in one environment and one process."""

import numpy as np
import pytest
from plugin_suite import check_conforms
from several_frameworks import ROOT, results, run

FRAMEWORKS = ("jax", "torch", "paddle")
# Each is first once, and JAX directly before and after each other.
ORDERS = [("jax", "torch", "paddle"), ("paddle", "jax"), ("torch", "jax"), ("jax", "paddle")]


@pytest.mark.parametrize("order", ORDERS, ids="-".join)
def test_all_work_in_one_process_in_this_order(order):
    code = f"""
import numpy as np
found = {{}}
for name in {order!r}:
    with unidev.use_backend(name):
        x = unidev.array([1.5, -2.0], device="gpu:1")
        net = unidev.place(unidev.nn.sequential(unidev.nn.dense(2, 3)), "gpu:1")
        loss, _ = unidev.value_and_grad(lambda net, x: net(x).sum())(net, x)
        y = unidev.copy_to(x, "cpu")
        found[name] = [
            unidev.to_numpy(y).tolist(), str(unidev.device_of(x)), str(unidev.device_of(loss)),
            not unidev.shares_memory(x, y),
        ]
for source in {order!r}:  # once all are there
    for target in {order!r}:
        with unidev.use_backend(source):
            x = unidev.array([1.5, -2.0])
        y = unidev.convert(x, target, copy=True)
        found[source].append(unidev.device_of(y).backend == target)
        found[source].append(unidev.to_numpy(y).tolist() == [1.5, -2.0])
print(json.dumps(found))
"""
    expected = [[1.5, -2.0], "gpu:1", "gpu:1", True, *[True] * (2 * len(order))]
    assert results(code, is_fresh=True) == dict.fromkeys(order, expected)


@pytest.mark.parametrize("simulated", [0, 2])
def test_jax_converts_to_and_from_each_other_framework(simulated, tmp_path):
    check_conforms("jax", "interop", simulated, tmp_path, also=("frameworks_warm",))


def test_a_tensor_goes_round_all_frameworks_on_one_memory():
    code = """
import numpy as np
room = np.zeros(4 * 6 + 64, np.uint8)
start = -room.ctypes.data % 64
x = room[start : start + 24].view(np.float32).reshape(2, 3)
y = x
for name in ("torch", "jax", "numpy"):
    y = unidev.convert(y, name, copy=False)
assert np.shares_memory(x, y) and not y.flags.writeable
shared = {}
with unidev.use_backend("jax"):
    z = unidev.array(x)
for name in ("torch", "paddle"):  # which could write to what JAX takes for constant
    try:
        unidev.convert(z, name, copy=False)
        shared[name] = "shared"
    except unidev.UnidevError as error:
        shared[name] = type(error).__name__
    w = unidev.convert(z, name)
    shared[name + " by default"] = bool(unidev.shares_memory(z, w))
print(json.dumps(shared))
"""
    assert results(code, simulate="0", backend="numpy") == {
        "torch": "UnsupportedOperation", "torch by default": False,
        "paddle": "UnsupportedOperation", "paddle by default": False,
    }  # fmt: skip


def test_numpys_arrays_of_bfloat16_are_converted():
    code = f"""
import ml_dtypes, numpy as np
x = np.array([1.5, -0.0, 3e38], ml_dtypes.bfloat16)
for name in {FRAMEWORKS!r}:
    there = unidev.convert({{"x": x}}, name)["x"]
    back = unidev.to_numpy(unidev.convert(there, "jax"))
    assert back.dtype == x.dtype and back.tobytes() == x.tobytes(), name
print("true")
"""
    assert results(code)


@pytest.mark.parametrize("backend", FRAMEWORKS)
def test_an_example_prints_the_same_bytes(backend):
    expected = ROOT / "examples" / "place_model.expected"
    done = run([ROOT / "examples" / "place_model.py"], backend=backend)
    assert done.stdout == expected.read_text()


def test_a_net_is_saved_by_each_and_gives_the_same_outputs_in_the_next(tmp_path):
    code = f"""
import numpy as np
rows = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
names, outputs = [*{FRAMEWORKS!r}, {FRAMEWORKS[0]!r}], []
folder = {str(tmp_path)!r}
for i, name in enumerate(names):
    with unidev.use_backend(name):
        nn = unidev.nn
        net = unidev.place(nn.sequential(nn.dense(4, 8), nn.relu(), nn.dense(8, 2)), "gpu:1")
        if i:
            loaded = unidev.load_parameters(net, f"{{folder}}/{{i - 1}}.npz")
            net = net if loaded is None else loaded
        unidev.save_parameters(net, f"{{folder}}/{{i}}.npz")
        outputs.append(unidev.to_numpy(net(unidev.array(rows, device="gpu:1"))).tolist())
print(json.dumps(outputs))
"""
    outputs = np.array(results(code))
    assert outputs.any()
    np.testing.assert_allclose(outputs, np.broadcast_to(outputs[0], outputs.shape), atol=1e-6)
