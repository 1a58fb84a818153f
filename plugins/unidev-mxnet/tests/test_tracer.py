"""Calls of MXNet that are not reported, and how long crossings are kept.

The transfers of each call are examples of the conformance suite: ``probe/transfers.py``.
"""

import mxnet as mx
from mxnet import autograd
from traced import MARKS, THERE, Recorded, backend, leaf, recorded, square

import unidev

pytestmark = MARKS


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
