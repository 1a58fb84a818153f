"""Odd arrays, operands that MXNet moves silently, and gradients that go back."""

import pickle
import threading

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, gluon
from traced import (
    HERE,
    MARKS,
    THERE,
    Recorded,
    backend,
    leaf,
    one,
    recorded,
    square,
)

import unidev

pytestmark = MARKS


# -- what is small, empty, sparse, or a view -------------------------------------------------------


def test_a_view_moves_its_own_bytes():
    x = mx.np.ones((4, 2), ctx=HERE, dtype="float64")
    assert recorded(x[1:3].asnumpy) == [("ndarray.asnumpy", "gpu:0", "cpu:0", 32, (2, 2))]
    assert recorded(lambda: x.T[0].as_in_ctx(THERE)) == [
        ("ndarray.as_in_ctx", "gpu:0", "gpu:1", 32, (4,))
    ]


def test_an_empty_array_is_reported_with_no_bytes():
    x = mx.np.zeros((0, 3), ctx=HERE)
    assert recorded(x.asnumpy) == [("ndarray.asnumpy", "gpu:0", "cpu:0", 0, (0, 3))]


def test_scalar_and_empty_arrays_have_their_shapes_in_a_thread_of_legacy_semantics_too():
    scalar, empty, found = one(), mx.np.zeros((0, 3), ctx=HERE), []

    def work():
        assert not mx.util.is_np_shape()
        found.extend(recorded(lambda: (pickle.dumps(scalar), pickle.dumps(empty))))

    worker = threading.Thread(target=work)
    worker.start()
    worker.join()
    assert [each[3:] for each in found] == [(4, ()), (0, (0, 3))]


def test_a_sparse_array_moves_its_values_and_its_indices():
    x = mx.nd.array([[0, 5, 0], [0, 0, 0], [0, 0, 0]], ctx=HERE).tostype("csr")
    nbytes = 4 + 8 + 4 * 8  # one float32, its column, where the rows begin: of int64
    assert recorded(lambda: x.copyto(THERE)) == [
        ("CSRNDArray.copyto", "gpu:0", "gpu:1", nbytes, (3, 3))
    ]
    assert recorded(x.asnumpy) == [("CSRNDArray.asnumpy", "gpu:0", "cpu:0", 36, (3, 3))]


# -- operands --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operator", "compute"),
    [
        ("add", lambda x, y: x + y),
        ("add", lambda x, y: x.as_nd_ndarray() + y.as_nd_ndarray()),
        ("add", lambda x, y: x.__iadd__(y)),
        ("add", np.add),
        ("equal", lambda x, y: x == y),
        ("dot", mx.np.dot),
        ("tensordot", lambda x, y: mx.np.tensordot(x, y, 1)),
        ("matmul", lambda x, y: x @ y),
        ("concatenate", lambda x, y: mx.np.concatenate([x, y])),
        ("where", lambda x, y: mx.np.where(x, x, y)),
        ("add_n", lambda x, y: mx.nd.add_n(x.as_nd_ndarray(), y.as_nd_ndarray())),
        ("broadcast_like", lambda x, y: mx.nd.broadcast_like(x.as_nd_ndarray(), y.as_nd_ndarray())),
    ],
)
def test_an_operand_of_elsewhere_goes_to_the_first_one(operator, compute):
    x, y = square(), square(THERE)
    expected = [(f"{operator} of mixed operands", "gpu:1", "gpu:0", 16, (2, 2))]
    assert recorded(lambda: compute(x, y)) == expected
    assert recorded(lambda: compute(x, x)) == []


def test_each_operand_of_elsewhere_is_reported():
    arrays = [square(), square(THERE), square(), square(mx.cpu())]
    assert recorded(lambda: mx.np.stack(arrays)) == [
        ("stack of mixed operands", "gpu:1", "gpu:0", 16, (2, 2)),
        ("stack of mixed operands", "cpu:0", "gpu:0", 16, (2, 2)),
    ]


def test_a_result_that_is_put_elsewhere_goes_there():
    x, result = square(), square(THERE)
    assert recorded(lambda: mx.np.add(x, x, out=result)) == [
        ("out= of add", "gpu:0", "gpu:1", 16, (2, 2))
    ]


def test_operands_that_mxnet_refuses_are_not_reported(monkeypatch):
    x, y = square(), square(mx.cpu())
    assert [each[:3] for each in recorded(lambda: x + y)] == [
        ("add of mixed operands", "cpu:0", "gpu:0")
    ]
    monkeypatch.setattr(backend, "simulated_count", 0)  # a CPU's beside a real GPU's
    assert recorded(lambda: x + y) == []
    assert [each[1:3] for each in recorded(lambda: x.as_in_ctx(mx.cpu()))] == [("gpu:0", "cpu:0")]


def test_without_simulation_all_cpus_are_one_memory(python):
    program = """
import unidev
found = []
tracer = unidev.active_backend().tracer
import mxnet as mx
x, y = mx.nd.ones((2,), mx.cpu(3)), mx.nd.ones((2,))
with tracer.watch(found.append, lambda token: None):
    x.asnumpy(), x + y, x.copyto(mx.cpu(1)), mx.np.array([1], ctx=mx.cpu(2))
print(found)
"""
    done = python(program, UNIDEV_BACKEND="mxnet")
    assert (done.stdout, done.returncode) == ("[]\n", 0), done.stderr


def test_what_stays_on_its_device_is_not_reported():
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Dense(4, in_units=2), gluon.nn.BatchNorm(in_channels=4), gluon.nn.Dense(1))
    net.initialize(ctx=HERE)
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "adam")
    x = square()
    net(x)

    def train():
        for _ in range(2):
            with autograd.record():
                loss = (net(x) ** 2).sum()
            loss.backward()
            trainer.step(2)
        y = mx.np.concatenate([x, x])[1:3].T.reshape(-1).astype("float64").copy()
        x[0] = 5
        x.as_in_ctx(HERE), y.copyto(HERE), mx.np.random.normal(size=(2,), ctx=HERE)
        mx.nd.waitall()

    assert recorded(train) == []


def test_what_is_on_the_cpu_is_not_reported():
    x = square(mx.cpu())
    uses = (x.asnumpy, lambda: x.as_in_ctx(mx.cpu()), lambda: str(x), lambda: x + x)
    assert recorded(lambda: [use() for use in (*uses, lambda: bool(x[0, 0]))]) == []
    assert recorded(lambda: x.copyto(mx.Context("cpu_shared", 0)).asnumpy()) == []


# -- gradients -------------------------------------------------------------------------------------


def back(operation, source="gpu:1", target="gpu:0"):
    return (f"gradient of {operation}", source, target, 16, (2, 2))


def test_a_gradient_goes_back_over_each_crossing_the_last_one_first():
    w, v, constant = leaf(), leaf(THERE), square()

    def train():
        with autograd.record():
            y = (w * 2).as_in_ctx(THERE) * v
            loss = ((y + w) + constant).sum()
        loss.backward()

    assert recorded(train) == [
        ("ndarray.as_in_ctx", "gpu:0", "gpu:1", 16, (2, 2)),
        ("add of mixed operands", "gpu:0", "gpu:1", 16, (2, 2)),
        ("add of mixed operands", "gpu:0", "gpu:1", 16, (2, 2)),  # the constant: has no gradient
        back("add"),
        back("as_in_ctx"),
    ]
    assert w.grad.asnumpy().tolist() == [[3, 5], [7, 9]]


def test_a_constant_that_was_used_before_has_no_gradient_either():
    w, constant = leaf(THERE), square()

    def train():
        for _ in range(2):
            with autograd.record():
                loss = (w * constant).sum()
            loss.backward()

    crossing = ("multiply of mixed operands", "gpu:0", "gpu:1", 16, (2, 2))
    assert recorded(train) == [crossing, crossing]


def test_only_gradients_that_are_asked_for_go_back():
    w, v = leaf(), leaf(THERE)
    with Recorded() as found:
        with autograd.record():
            loss = (w.copyto(THERE) * v).sum()
        del found[:]
        autograd.grad(loss, [v], retain_graph=True)
        assert found == []
        autograd.grad(loss, [w], retain_graph=True)
        assert found == [back("copyto")]
        autograd.backward([loss])
        assert found == [back("copyto")] * 2


def test_a_gradient_goes_back_through_tensordot_and_hybridized_layers():
    w = leaf(THERE)
    x, net = square(), gluon.nn.Dense(2, in_units=2)
    net.initialize(ctx=HERE)
    net.hybridize()
    with Recorded() as found:
        with autograd.record():
            loss = net(mx.np.tensordot(x, w, 1)).sum()
        assert found == [("tensordot of mixed operands", "gpu:1", "gpu:0", 16, (2, 2))]
        loss.backward()
    assert found[1:] == [back("tensordot", "gpu:0", "gpu:1")]


def test_a_gradient_that_is_given_goes_to_its_head():
    w = leaf()
    with autograd.record():
        y = w * 2
    assert recorded(lambda: y.backward(square(THERE).copy()))[1:] == [
        ("backward of mixed operands", "gpu:1", "gpu:0", 16, (2, 2))
    ]


def test_a_crossing_is_kept_until_it_was_gone_back_over_or_the_scope_ends():
    w = leaf()
    with Recorded():
        with autograd.record():
            loss = w.as_in_ctx(THERE).sum()
            w.as_in_ctx(THERE)
        assert len(backend.tracer.recording.gradients) == 2
        loss.backward()
        assert len(backend.tracer.recording.gradients) == 1
    assert not backend.tracer.recording.gradients


def test_value_and_grad_reports_the_way_back_too():
    w = square()
    found = recorded(lambda: unidev.value_and_grad(lambda w: w.as_in_ctx(THERE).sum())(w))
    assert found == [("ndarray.as_in_ctx", "gpu:0", "gpu:1", 16, (2, 2)), back("as_in_ctx")]


def test_what_was_recorded_before_is_a_blind_spot_that_is_declared():
    w = leaf()
    with autograd.record():
        loss = w.as_in_ctx(THERE).sum()
    assert recorded(loss.backward) == []
    assert "gradients of what was computed before the trace began" in backend.tracer.blind_spots
