"""Arrays of both classes, sparse ones, and what MXNet would have done to their values."""

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd
from turns import in_a_thread

import unidev
from unidev import FrameworkError, UnsupportedDtypeError, UnsupportedOperation

VALUES = np.array([[1.5, -2.0, 0.0], [3.0, 4.0, 5.0]], "float32")


def make(cls):
    x = mx.np.array(VALUES)
    return x if cls is mx.np.ndarray else x.as_nd_ndarray()


def test_an_array_in_onednns_layout_is_copied_as_its_values():
    net = mx.gluon.nn.Conv2D(16, 3)
    net.initialize()
    y = net(mx.nd.ones((2, 16, 16, 16)))
    z = unidev.copy_to(y, "gpu:0")
    assert not unidev.shares_memory(y, z)
    assert z.asnumpy().tobytes() == y.asnumpy().tobytes()


def test_mxnets_half_done_bfloat16_copies_and_is_not_read():
    x = mx.nd.ones((2,)).astype(np.dtype([("bfloat16", np.uint16)]))
    y = unidev.copy_to(x, "gpu:0")
    assert y.asnumpy()["bfloat16"].tolist() == [0x3F80, 0x3F80]
    for like in (unidev.zeros_like, unidev.ones_like):
        with pytest.raises(unidev.UnsupportedOperation, match="like one of bfloat16"):
            like(x)
    with pytest.raises(UnsupportedDtypeError, match="float32"):
        unidev.to_numpy(y)


@pytest.mark.parametrize("cls", [mx.np.ndarray, mx.nd.NDArray])
def test_casting_keeps_the_class_and_the_source(cls):
    x = make(cls)
    y = unidev.array(x, dtype="int64", device="gpu:0")
    assert type(y) is cls
    assert unidev.to_numpy(y).tolist() == [[1, -2, 0], [3, 4, 5]]
    assert unidev.to_numpy(x).tobytes() == VALUES.tobytes()


def test_new_tensors_are_np_arrays_also_while_recording():
    with autograd.record():
        for x in (unidev.zeros(3), unidev.full(3, 0.5), unidev.array([1.0]), unidev.arange(3)):
            assert type(x) is mx.np.ndarray
            x[:] = 7  # MXNet refuses that of an array that it has recorded
            assert set(unidev.to_numpy(x).tolist()) == {7}


def every_shape():
    for shape in ((), (0,), (0, 3), (2, 3)):
        x = unidev.rand(shape)
        for y in (
            x, unidev.copy_to(x, unidev.cpu()), unidev.copy_to(x, "gpu:1"), unidev.zeros_like(x),
            unidev.full(shape, 2.5), unidev.array(x, dtype="float64"),
            unidev.copy_to(x.as_nd_ndarray(), "gpu:0"),
        ):  # fmt: skip
            assert unidev.to_numpy(y).shape == shape
    return "done"


@pytest.mark.parametrize("flags", [(False, False), (True, False), (True, True), (False, True)])
def test_every_shape_works_in_any_thread_and_leaves_its_flags_as_they_were(flags):
    found = []

    def work():
        np_shape, np_array = flags
        with mx.util.np_shape(np_shape), mx.util.np_array(np_array):
            found.append(every_shape())
            found.append((mx.util.is_np_shape(), mx.util.is_np_array()))

    in_a_thread(work)
    assert found == ["done", flags]


def test_a_flag_that_is_on_for_all_threads_stays_so(python):
    done = python(
        "import unidev\n"
        "unidev.active_backend()\n"
        "import ctypes, threading, mxnet as mx\n"
        "from unidev_mxnet.native_calls import _is_numpy_shape, _set_is_numpy_shape, numpy_shapes\n"
        "_set_is_numpy_shape(2, ctypes.byref(ctypes.c_int()))\n"
        "with numpy_shapes():\n"
        "    pass\n"
        "flag = ctypes.c_int()\n"
        "_is_numpy_shape(ctypes.byref(flag))\n"
        "assert flag.value == 2, flag.value\n"
    )
    assert done.returncode == 0, done.stderr


def test_what_does_not_fit_fails_in_the_call_that_asked(python):
    done = python(
        "import pathlib, resource, unidev\n"
        "x = unidev.zeros(2**26)\n"
        "unidev.synchronize()\n"
        "used = int(pathlib.Path('/proc/self/statm').read_text().split()[0])\n"
        "resource.setrlimit(resource.RLIMIT_AS, (used * resource.getpagesize() + 2**27,) * 2)\n"
        "for ask in (lambda: unidev.copy_to(x, unidev.cpu()), lambda: unidev.copy_to(x, 'gpu:0'),\n"
        "            lambda: unidev.zeros(2**26), lambda: unidev.ones(2**26)):\n"
        "    try:\n"
        "        ask()\n"
        "    except unidev.OutOfDeviceMemoryError:\n"
        "        pass\n"
        "    else:\n"
        "        raise SystemExit('not in the call')\n"
        "assert unidev.to_numpy(x[:2]).tolist() == [0, 0]\n",
        UNIDEV_SIMULATE="1",
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("shape", [(2**31 + 5,), (2**40,), (2**20, 2**20)])
def test_a_size_that_this_build_cannot_count_is_an_error_of_unidevs(shape):
    for ask in (unidev.zeros, unidev.empty, unidev.ones):
        with pytest.raises(FrameworkError):
            ask(shape)


def test_symbols_are_refused_in_containers_too():
    for tree in (mx.sym.var("x"), [mx.sym.var("x")]):
        with pytest.raises(UnsupportedOperation, match="graph that is being traced"):
            unidev.copy_to(tree, "gpu:0")


UNFINISHED = """
import unidev
unidev.active_backend()
import mxnet as mx
from unidev.nn import functional as F
x, y = mx.nd.NDArray(None), unidev.ones(2)
for use in (
    lambda: unidev.copy_to(x, "cpu"), lambda: unidev.to_numpy(x), lambda: unidev.zeros_like(x),
    lambda: unidev.ones_like(x, device="cpu"),
    lambda: unidev.array(x), lambda: unidev.array(x, dtype="float16"),
    lambda: unidev.sgd(x, y, lr=1), lambda: unidev.sgd(y, x, lr=1),
    lambda: unidev.value_and_grad(lambda v: v)(x), lambda: F.relu(x),
    lambda: F.mean_squared_error(y, x), lambda: F.linear(y, x), lambda: F.conv2d(x, x),
):
    try:
        use()
    except unidev.DeletedTensorError:
        continue
    raise AssertionError(use)
for use in (unidev.as_device, unidev.zeros, unidev.gpu, lambda x: unidev.zeros(2, dtype=x)):
    try:
        use(x)
    except unidev.UnidevError as error:
        assert "<mxnet.ndarray.ndarray.NDArray>" in str(error), error
print("all")
"""


def test_an_array_without_a_handle_is_refused_and_does_not_end_the_process(python):
    done = python(UNFINISHED)
    assert done.stdout.endswith("all\n"), (done.returncode, done.stderr[-2000:])


@pytest.mark.parametrize(
    "said",
    [
        "Create cublas handle failed",
        "Create cusolver handle failed",
        "Failed to allocate CPU Memory",
    ],
)
def test_no_room_in_mxnets_words_is_lack_of_memory(said, monkeypatch):
    def fails(*_):
        raise mx.MXNetError(f"Check failed: err == CUBLAS_STATUS_SUCCESS (1 vs. 0) : {said}")

    monkeypatch.setattr(unidev.active_backend(), "copy_to", fails)
    with pytest.raises(unidev.OutOfDeviceMemoryError, match=said):
        unidev.copy_to(mx.np.ones((2, 3)), "gpu:1")


def test_a_data_batch_is_moved_and_stays_what_it_is():
    batch = mx.io.DataBatch([make(mx.nd.NDArray)], [make(mx.np.ndarray)], pad=1)
    moved = unidev.copy_to({"batch": batch}, "gpu:1")["batch"]
    assert type(moved) is mx.io.DataBatch
    assert moved.pad == 1
    assert unidev.device_of(moved) is unidev.gpu(1)
    assert moved.data[0].shape == batch.data[0].shape
    assert unidev.device_of(batch) is unidev.cpu()
