"""What Paddle would crash on, or answer wrongly, is refused by name."""

from __future__ import annotations

import contextlib

import numpy as np
import paddle
import pytest

import unidev

CPU, GPU = unidev.cpu(), unidev.gpu(0)
MAKERS = [
    lambda: unidev.zeros(3),
    lambda: unidev.empty(3, device="gpu"),
    lambda: unidev.full(3, 1.0),
    lambda: unidev.array([1.0, 2.0]),
    lambda: unidev.array([1.0], dtype="bfloat16"),
]


@contextlib.contextmanager
def static_graph():
    paddle.enable_static()
    try:
        yield
    finally:
        paddle.disable_static()


def sparse(device=CPU, **options):
    with_place = {"place": device.native, **options}
    return paddle.sparse.sparse_coo_tensor([[0, 1], [1, 0]], [1.0, 2.0], [2, 2], **with_place)


DENSE = [[0.0, 1.0], [2.0, 0.0]]


@pytest.mark.filterwarnings("ignore:\\nNon compatible API:Warning")
def test_the_gradient_goes_back_through_a_copy_of_a_coo_tensor_and_of_no_csr_tensor():
    values = unidev.array([1.0, 2.0])
    values.stop_gradient = False
    x = paddle.sparse.sparse_coo_tensor(
        [[0, 1], [1, 0]], values, [2, 2], place=CPU.native, stop_gradient=False
    )
    y = unidev.copy_to(x, GPU)
    (y.values() * unidev.array([3.0, 4.0], device=GPU)).sum().backward()
    assert values.grad.tolist() == [3.0, 4.0]
    rows = sparse(stop_gradient=False).to_sparse_csr()
    with pytest.raises(unidev.UnsupportedOperation, match=r"to_sparse_coo\(2\), or x.detach\(\)"):
        unidev.copy_to(rows, GPU)
    with paddle.no_grad():
        assert unidev.copy_to(rows, GPU).to_dense().tolist() == DENSE


@pytest.mark.filterwarnings("ignore:\\nNon compatible API:Warning")
def test_a_sparse_tensor_is_no_array():
    x = sparse()
    for act in (
        lambda: unidev.to_numpy(x), lambda: unidev.array(x, dtype="float64"),
        lambda: unidev.zeros_like(x), lambda: unidev.ones_like(x, device="gpu:1"),
        *(lambda c=copy: unidev.convert(x, "numpy", copy=c) for copy in (None, False, True)),
    ):  # fmt: skip
        with pytest.raises(unidev.UnsupportedOperation, match=r"sparse|x\.to_dense\(\)"):
            act()


@pytest.mark.parametrize("stop_gradient", [True, False])
def test_in_a_static_graph_nothing_is_copied_or_made(stop_gradient):
    x, y = unidev.ones(3), unidev.ones(3, device=GPU)
    x.stop_gradient = y.stop_gradient = stop_gradient
    copies = [lambda t=t, d=d: unidev.copy_to(t, d) for t in (x, y) for d in (CPU, GPU)]
    layer, slopes = paddle.nn.Linear(2, 2).to("cpu"), unidev.value_and_grad(lambda t: t.sum())
    others = [lambda: unidev.place(layer, GPU), lambda: slopes({"x": x})]
    with static_graph():
        assert unidev.device_of(y) is GPU
        assert unidev.as_in_device(y, GPU) is y
        for act in [*copies, *MAKERS, lambda: unidev.to_numpy(x), *others]:
            with pytest.raises(unidev.UnsupportedOperation, match="static graph"):
                act()
    assert unidev.to_numpy(unidev.copy_to(y, CPU)).tolist() == [1, 1, 1]


def test_a_symbolic_variable_has_no_device_yet():
    with static_graph():
        x = paddle.static.data("x", [2, 3])
        for act in (
            unidev.device_of,
            unidev.to_numpy,
            lambda t: unidev.as_in_device(t, CPU),
            lambda t: unidev.copy_to(t, GPU),
            lambda t: unidev.same_device(t, t),
        ):
            with pytest.raises(unidev.UnsupportedOperation, match="graph"):
                act(x)
    with pytest.raises(unidev.UnsupportedOperation, match="graph"):
        unidev.copy_to(x, CPU)


def test_only_a_symbolic_variable_is_traced():
    backend = unidev.active_backend()
    assert not backend.traced(unidev.ones(2))
    assert not backend.traced(paddle.nn.Linear(2, 2).weight)
    with static_graph():
        x = paddle.static.data("x", [2, 3])
        assert backend.traced(x)
    for act in (unidev.zeros_like, lambda t: unidev.sgd(t, t, lr=1.0)):
        with pytest.raises(unidev.UnsupportedOperation, match="no longer being built"):
            act(x)


def test_a_distributed_tensor_lies_on_several_devices(run_python):
    done = run_python(
        """
        import unidev
        unidev.set_backend("paddle")
        import paddle
        import paddle.distributed as dist
        paddle.set_device("cpu")
        x = dist.shard_tensor(paddle.ones([2]), dist.ProcessMesh([0]), [dist.Replicate()])
        assert x.is_dist()
        for act in (unidev.device_of, unidev.to_numpy, lambda t: unidev.copy_to(t, "cpu")):
            try:
                act(x)
            except unidev.UnsupportedOperation as error:
                print("distributed" in str(error))
        """
    )
    assert done.stdout.split() == ["True"] * 3, done.stderr


def test_a_string_tensor_is_none_of_numbers():
    # A type without a __module__, of Paddle's own.
    x = paddle.base.core.eager.StringTensor(np.array(["a"]), "x")
    for act in (unidev.device_of, unidev.to_numpy, unidev.array, lambda t: unidev.copy_to(t, CPU)):
        with pytest.raises(unidev.NotATensorError, match="StringTensor"):
            act(x)


def test_empty_tensors_without_memory_are_tensors_all_the_same():
    x = paddle.Tensor()
    assert unidev.to_numpy(unidev.copy_to(x, CPU)).shape == (0,)
    assert not unidev.shares_memory(x, x)
    assert unidev.to_numpy(unidev.zeros((0, 2), device=GPU)).dtype == np.float32


@pytest.mark.parametrize("device", [CPU, GPU])
@pytest.mark.parametrize("shape", [(2**31, 2**31), (2**40, 2**40), 2**60, 2**70, (2**33, 0, 2**62)])
def test_shapes_beyond_all_memory_are_errors_or_empty(shape, device):
    for make in (unidev.zeros, unidev.empty):
        if isinstance(shape, tuple) and 0 in shape:
            assert make(shape, device=device).shape == list(shape)
        else:
            # Beyond 2**63 elements it is no shape; below, Paddle would not see the bytes overflow.
            with pytest.raises((unidev.OutOfDeviceMemoryError, unidev.InvalidDataError)):
                make(shape, device=device)


@pytest.mark.parametrize("name", ["relu", "tanh", "flatten"])
def test_the_rows_of_a_sparse_gradient_never_reach_a_kernel(name, monkeypatch):
    layer = paddle.nn.Embedding(5, 3, sparse=True)
    layer(paddle.to_tensor([1, 2])).sum().backward()
    function = getattr(unidev.nn.functional, name)
    monkeypatch.setattr("unidev.nn.functional.call", lambda _, told, x, **__: told(x))
    with pytest.raises(unidev.UnsupportedOperation, match="SelectedRows"):
        function(layer.weight.grad)
    assert function(layer.weight).shape == layer.weight.shape
