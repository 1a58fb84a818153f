"""Arrays of both classes, sparse ones, and what MXNet would have done to their values."""

import math
import threading
import time

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd

import unidev
from unidev import FrameworkError, NotATensorError, UnsupportedDtypeError, UnsupportedOperation
from unidev_mxnet.native_calls import numpy_shapes

VALUES = np.array([[1.5, -2.0, 0.0], [3.0, 4.0, 5.0]], "float32")


def make(cls):
    x = mx.np.array(VALUES)
    return x if cls is mx.np.ndarray else x.as_nd_ndarray()


@pytest.mark.parametrize("stype", ["row_sparse", "csr"])
@pytest.mark.parametrize("target", ["cpu:0", "gpu:1"])
def test_sparse_arrays_are_copied_as_what_they_are(stype, target):
    x = mx.nd.array(VALUES).tostype(stype)
    y = unidev.copy_to(x, target)
    assert type(y) is type(x)
    assert str(unidev.device_of(y)) == target
    extents = unidev.active_backend().extents
    assert len(extents(x)) == (2 if stype == "row_sparse" else 3)
    assert extents(x)[0].nbytes >= 5 * 4
    assert not unidev.shares_memory(x, y)
    assert unidev.shares_memory(x, x)
    assert unidev.to_numpy(y).tobytes() == VALUES.tobytes()
    for like in (x, make(mx.nd.NDArray)):
        zeros = unidev.zeros_like(like, device=target)
        assert (type(zeros), str(unidev.device_of(zeros))) == (type(like), target)
        assert not unidev.to_numpy(zeros).any()
    with pytest.raises(unidev.UnsupportedOperation, match=f"ones_like of a {stype} array"):
        unidev.ones_like(x)
    assert type(unidev.ones_like(make(mx.nd.NDArray))) is mx.nd.NDArray


def test_rows_share_the_storage_of_the_whole_and_disjoint_rows_share_it_too():
    x = unidev.rand((4, 3))
    assert unidev.shares_memory(x[:1], x[3:])
    assert unidev.active_backend().extents(x[3:])[0].nbytes == 48
    assert not unidev.shares_memory(x, x.T)
    assert not unidev.shares_memory(x, unidev.zeros((0, 3)))
    for view in (x[1:], x[2], x.detach()):
        assert unidev.shares_memory(view, x)
        assert not unidev.shares_memory(unidev.copy_to(view, unidev.cpu()), x)


def test_the_extent_is_the_address_that_mxnet_itself_tells():
    from unidev_mxnet.native_calls import data_address

    for size in (1, 1000, 10**6):
        x = unidev.rand(size)
        assert unidev.active_backend().extents(x) == [(data_address(x), 4 * size)]


def test_an_array_in_onednns_layout_is_copied_as_its_values():
    net = mx.gluon.nn.Conv2D(16, 3)
    net.initialize()
    y = net(mx.nd.ones((2, 16, 16, 16)))
    z = unidev.copy_to(y, "gpu:0")
    assert not unidev.shares_memory(y, z)
    assert z.asnumpy().tobytes() == y.asnumpy().tobytes()


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (2**63 - 1, "int64"), (-(2**63), "int64"), (2**53 + 1, "int64"), (-0.0, "float16"),
        (-0.0, "float64"), (5e-324, "float64"), (1e308, "float64"), (1e-40, "float32"),
        (math.inf, "float32"), (0.1, "float64"), (True, "bool"), (-128, "int8"), (255, "uint8"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("shape", [(), (1,), (2, 3), (0, 3), (2,) * 7])
def test_full_is_exact(value, dtype, shape):
    made = unidev.full(shape, value, dtype=dtype, device="gpu:1")
    assert made.shape == shape
    assert unidev.to_numpy(made).tobytes() == np.full(shape, value, dtype).tobytes()


@pytest.mark.parametrize("name", ["int16", "uint32", "bfloat16", "complex64"])
def test_a_dtype_that_mxnet_has_not_is_an_error_that_lists_those_it_has(name):
    with pytest.raises(UnsupportedDtypeError, match="float16, float32, float64"):
        unidev.zeros(2, dtype=name)


def test_mxnets_half_done_bfloat16_copies_and_is_not_read():
    x = mx.nd.ones((2,)).astype(np.dtype([("bfloat16", np.uint16)]))
    y = unidev.copy_to(x, "gpu:0")
    assert y.asnumpy()["bfloat16"].tolist() == [0x3F80, 0x3F80]
    for like in (unidev.zeros_like, unidev.ones_like):
        with pytest.raises(unidev.FrameworkError, match="void"):
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

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == ["done", flags]


def test_the_flag_is_restored_after_an_error_and_when_scopes_nest():
    def fail():
        with numpy_shapes():
            assert mx.util.is_np_shape()
            raise ZeroDivisionError

    assert not mx.util.is_np_shape()
    with pytest.raises(ZeroDivisionError):
        fail()
    assert not mx.util.is_np_shape()
    with numpy_shapes():
        with pytest.raises(ZeroDivisionError):
            fail()
        assert mx.util.is_np_shape()
    assert not mx.util.is_np_shape()


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


def test_models_parameters_and_symbols_are_refused_in_containers_too():
    net = mx.gluon.nn.Dense(2)
    for x in (net, net.weight, net.collect_params()):
        for tree in (x, [x]):
            with pytest.raises(NotATensorError, match="model"):
                unidev.copy_to(tree, "gpu:0")
    for tree in (mx.sym.var("x"), [mx.sym.var("x")]):
        with pytest.raises(UnsupportedOperation, match="graph that is being traced"):
            unidev.copy_to(tree, "gpu:0")


def test_a_loop_of_copies_gives_its_memory_back():
    import ctypes

    names = ("arena", "o", "s", "hblks", "hblkhd", "us", "fs", "uordblks", "fo", "k")

    class Info(ctypes.Structure):
        _fields_ = [(name, ctypes.c_size_t) for name in names]

    libc = ctypes.CDLL(None)
    libc.mallinfo2.restype = Info

    def used():
        unidev.synchronize()
        info = libc.mallinfo2()
        return info.hblkhd + info.uordblks

    x = unidev.rand(2**20)
    unidev.copy_to(x, "gpu:0")
    before = used()
    for _ in range(50):
        unidev.copy_to(x, "gpu:0"), unidev.copy_to(x, unidev.cpu())
    deadline = time.monotonic() + 300
    while used() - before >= 2**20:  # MXNet's engine frees after it has said that it is done
        assert time.monotonic() < deadline, f"{used() - before} bytes more than before"
        time.sleep(0.05)


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


@pytest.mark.parametrize("library", ["cublas", "cusolver"])
def test_a_gpu_without_room_for_a_librarys_handle_is_lack_of_memory(library, monkeypatch):
    def fails(*_):
        check = "Check failed: err == CUBLAS_STATUS_SUCCESS (1 vs. 0) : "
        raise mx.MXNetError(f"{check}Create {library} handle failed")

    monkeypatch.setattr(unidev.active_backend(), "copy_to", fails)
    with pytest.raises(unidev.OutOfDeviceMemoryError, match=f"Create {library} handle failed"):
        unidev.copy_to(mx.np.ones((2, 3)), "gpu:1")


def test_a_host_without_room_is_lack_of_memory(monkeypatch):
    def fails(*_):
        raise mx.MXNetError("Check failed: Failed to allocate CPU Memory")

    monkeypatch.setattr(unidev.active_backend(), "copy_to", fails)
    with pytest.raises(unidev.OutOfDeviceMemoryError, match="Failed to allocate CPU Memory"):
        unidev.copy_to(mx.np.ones((2, 3)), "gpu:1")


def test_a_data_batch_is_moved_and_stays_what_it_is():
    batch = mx.io.DataBatch([make(mx.nd.NDArray)], [make(mx.np.ndarray)], pad=1)
    moved = unidev.copy_to({"batch": batch}, "gpu:1")["batch"]
    assert type(moved) is mx.io.DataBatch
    assert moved.pad == 1
    assert unidev.device_of(moved) is unidev.gpu(1)
    assert moved.data[0].shape == batch.data[0].shape
    assert unidev.device_of(batch) is unidev.cpu()
