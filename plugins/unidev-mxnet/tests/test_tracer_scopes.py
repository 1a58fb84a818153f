"""The tracer's scopes: what is forbidden does not happen, and nothing is left behind."""

import sys

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, gluon
from mxnet.base import _LIB
from traced import (
    FUNCTIONS,
    HERE,
    MARKS,
    THERE,
    Recorded,
    Refused,
    backend,
    leaf,
    one,
    refusing,
    square,
)

pytestmark = MARKS


# -- raising ---------------------------------------------------------------------------------------


def test_what_is_forbidden_is_not_done_and_the_error_arrives_as_it_is():
    x, y, result = square(), square(THERE), mx.np.zeros((2, 2), ctx=THERE)
    for call in (
        lambda: x.copyto(result),
        lambda: mx.np.add(x, x, out=result),
        lambda: result.__setitem__(slice(None), x),
        lambda: result.__setitem__(slice(None), np.ones((2, 2))),
        lambda: result.__iadd__(x),
        lambda: mx.nd.elemwise_add(
            x.as_nd_ndarray(), y.as_nd_ndarray(), out=result.as_nd_ndarray()
        ),
        x.asnumpy,
        lambda: str(x),
        lambda: bool(one()),
    ):
        with refusing() as found, pytest.raises(Refused):
            call()
        assert found == found.ended == []
    assert not result.asnumpy().any()


def test_a_backward_pass_that_is_forbidden_computes_no_gradient():
    w = leaf()
    with Recorded(lambda transfer: transfer.operation.startswith("gradient")):
        with autograd.record():
            loss = w.as_in_ctx(THERE).sum()
        with pytest.raises(Refused):
            loss.backward()
    assert not w.grad.asnumpy().any()
    loss.backward()
    assert w.grad.asnumpy().all()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_what_an_optimizer_in_a_kvstore_reads_can_be_refused():
    class Reading(mx.optimizer.SGD):
        def update_multi_precision(self, index, weight, grad, state):
            float(grad[0].asnumpy().sum())
            super().update_multi_precision(index, weight, grad, state)

    net = gluon.nn.Dense(1, in_units=2, use_bias=False)
    net.initialize(ctx=[HERE, THERE])
    trainer = gluon.Trainer(net.collect_params(), Reading(), update_on_kvstore=True)

    def step():
        with autograd.record():
            losses = [net(mx.np.ones((1, 2), ctx=context)).sum() for context in (HERE, THERE)]
        autograd.backward(losses)
        trainer.step(2)

    with refusing(), pytest.raises(Refused):
        step()
    assert any("KVStore" in spot for spot in backend.tracer.blind_spots)


PYTHON_IN_A_BACKWARD_PASS = """
import threading
import unidev
tracer = unidev.active_backend().tracer
import mxnet as mx

class Double(mx.autograd.Function):
    def forward(self, x):
        return 2 * x

    def backward(self, gradient):
        print(threading.current_thread() is threading.main_thread())
        x.asnumpy()
        return 2 * gradient

x = mx.nd.ones((2,), ctx=unidev.gpu(0).native)
x.attach_grad()
found = []
with tracer.watch(found.append, lambda token: None):
    with mx.autograd.record():
        y = Double()(x)
    y.backward()
    print(found)
    x.asnumpy()
print(len(found))
"""


def test_python_within_a_backward_pass_is_a_part_of_it_also_in_the_naive_engine(python):
    done = python(
        PYTHON_IN_A_BACKWARD_PASS,
        UNIDEV_BACKEND="mxnet", UNIDEV_SIMULATE="2", MXNET_ENGINE_TYPE="NaiveEngine",
    )  # fmt: skip
    assert (done.stdout, done.returncode) == ("True\n[]\n1\n", 0), done.stderr


# -- scopes ----------------------------------------------------------------------------------------


def test_a_scope_replaces_the_functions_that_move_data_and_no_others():
    before = dict(vars(_LIB))  # ctypes adds a function at its first use, also by a finalizer
    with Recorded():
        replaced = {name for name, value in before.items() if vars(_LIB)[name] is not value}
    assert replaced == set(FUNCTIONS)
    assert all(vars(_LIB)[name] is value for name, value in before.items())


def test_an_operator_pays_little_while_it_is_watched():
    x = square()

    def calls():
        """How many functions Python calls; a time would depend on what else the machine does."""
        made = []
        sys.setprofile(lambda frame, event, argument: made.append(event))
        x + x
        sys.setprofile(None)
        return made.count("call") + made.count("c_call")

    x + x  # what is made at the first use
    plain = calls()
    with Recorded():
        watched = calls()
    assert 0 < watched - plain <= 15


def test_a_build_whose_operators_are_called_by_cython_declares_it(monkeypatch):
    def compiled():
        pass

    compiled.__module__ = "mxnet._cy3.ndarray"
    assert "operators and copies" not in backend.tracer.blind_spots
    monkeypatch.setattr("mxnet.ndarray._internal._imperative_invoke", compiled)
    assert "operators and copies" in type(backend.tracer)(backend).blind_spots
