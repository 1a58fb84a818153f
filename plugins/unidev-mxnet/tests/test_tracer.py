"""Traces and guards of MXNet's calls, calls that are not reported, and how long crossings are kept.

The transfers of each call are examples of the conformance suite: ``probe/transfers.py``.
"""

import mxnet as mx
import pytest
from mxnet import autograd
from traced import HERE, MARKS, THERE, Recorded, backend, leaf, recorded, square

import unidev
from unidev import TransferForbiddenError

pytestmark = MARKS


# -- a script whose transfers are known ------------------------------------------------------------


def script():
    x = mx.np.array([[1.0, 2.0], [3.0, 4.0]], ctx=HERE)
    w = mx.np.ones((2, 2), ctx=HERE)
    y = mx.np.dot(x, w) * 2
    z = y.as_in_ctx(THERE)
    total = 0.0
    for row in z:
        total += row.sum().item()
    if (z > 3).any():
        z += x
    print(f"{total:.1f}", z)  # noqa: T201  a way to read
    return z.asnumpy()


SCRIPT = [
    ("mx.np.array", "cpu:0", "gpu:0", 16, (2, 2)),
    ("ndarray.as_in_ctx", "gpu:0", "gpu:1", 16, (2, 2)),
    ("ndarray.item", "gpu:1", "cpu:0", 4, ()),
    ("ndarray.item", "gpu:1", "cpu:0", 4, ()),
    ("ndarray.__bool__", "gpu:1", "cpu:0", 1, ()),
    ("add of mixed operands", "gpu:0", "gpu:1", 16, (2, 2)),
    ("ndarray.__str__", "gpu:1", "cpu:0", 16, (2, 2)),
    ("ndarray.asnumpy", "gpu:1", "cpu:0", 16, (2, 2)),
]


def test_a_trace_has_each_of_them_by_its_line():
    with unidev.trace_transfers() as trace:
        script()
    assert [
        (each.operation, str(each.source), str(each.target), each.nbytes, each.shape)
        for each in trace.transfers
    ] == SCRIPT
    sources = [each.line.source for each in trace.transfers]
    assert sources[1:4] == ["z = y.as_in_ctx(THERE)"] + ["total += row.sum().item()"] * 2


@pytest.mark.parametrize("read", [lambda x: x.asnumpy(), lambda x: x.asscalar()])
def test_the_guard_stops_a_loop_that_logs_at_the_first_read(read):
    losses = [mx.nd.array([value], ctx=HERE) for value in (3.0, 2.0, 1.0)]
    logged = []

    def log():
        for loss in losses:
            logged.append(read(loss * 0.5))  # noqa: PERF401  it is to be stopped halfway

    with unidev.transfer_guard("forbid"), pytest.raises(TransferForbiddenError) as caught:
        log()
    assert logged == []
    assert "shape (1,), 4 bytes, from gpu:0 to cpu:0" in str(caught.value)


# -- what is not reported -------------------------------------------------------------------------


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


def test_what_was_recorded_before_is_a_blind_spot_that_is_declared():
    w = leaf()
    with autograd.record():
        loss = w.as_in_ctx(THERE).sum()
    assert recorded(loss.backward) == []
    assert "gradients of what was computed before the trace began" in backend.tracer.blind_spots


# -- gradients -------------------------------------------------------------------------------------


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
    assert found == [
        ("ndarray.as_in_ctx", "gpu:0", "gpu:1", 16, (2, 2)),
        ("gradient of as_in_ctx", "gpu:1", "gpu:0", 16, (2, 2)),
    ]
