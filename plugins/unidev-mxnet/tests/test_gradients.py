"""``value_and_grad``, ``sgd`` and ``no_grad`` on MXNet's own arrays, nets and threads."""

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, gluon
from turns import in_a_thread

import unidev

DEVICES = ["cpu:0", "gpu:1"]


def squares(x):
    return (x * x).sum()


def legacy(values):
    return mx.nd.array(np.array(values, "float32"))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("make", [mx.np.array, legacy])
def test_gradients_are_of_the_class_and_on_the_device_of_the_parameter(make, device):
    x = unidev.copy_to(make([1.0, 2.0]), device)
    loss, slope = unidev.value_and_grad(squares)(x)
    assert type(slope) is type(x)
    assert type(loss) is type(x)
    assert str(unidev.device_of(slope)) == device
    assert (loss.asnumpy().item(), slope.asnumpy().tolist()) == (5.0, [2.0, 4.0])
    assert x.grad is None


def test_gradients_work_in_any_thread_and_leave_its_flags():
    found = []

    def work():
        x = unidev.array([3.0])
        loss, slope = unidev.value_and_grad(lambda x: squares(x) + squares(x) * 2)(x)
        unidev.sgd(x, slope, lr=0.5)
        found.append((float(loss), x.asnumpy().tolist()))
        found.append((mx.util.is_np_shape(), mx.util.is_np_array(), autograd.is_recording()))

    in_a_thread(work)
    assert found == [(27.0, [-6.0]), (False, False, False)]


def test_an_error_in_the_loss_ends_recording():
    def fail(x):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        unidev.value_and_grad(fail)(mx.np.ones(2))
    assert not autograd.is_recording()
    assert not autograd.is_training()
    assert not mx.util.is_np_array()


def test_a_sparse_gradient_is_a_sparse_step():
    layer = gluon.nn.Embedding(5, 2, sparse_grad=True, weight_initializer=mx.init.One())
    layer.initialize()
    _, slopes = unidev.value_and_grad(lambda net: net(legacy([1, 3])).sum())(layer)
    assert slopes["weight"].stype == "row_sparse"
    unidev.sgd(layer, slopes, lr=0.5)
    assert layer.weight.data().asnumpy()[:, 0].tolist() == [1, 0.5, 1, 0.5, 1]


def test_no_grad_keeps_the_mode_and_may_be_entered_again():
    x = mx.np.ones(2)
    x.attach_grad()
    with autograd.record():
        scope = unidev.no_grad()
        with scope, unidev.no_grad():
            assert not autograd.is_recording()
            assert autograd.is_training()
        assert autograd.is_recording()
        y = squares(x)
    y.backward()
    assert x.grad.asnumpy().tolist() == [2, 2]


def test_a_step_of_a_sparse_parameter_is_refused_and_not_by_who_waits_next():
    x = mx.nd.sparse.row_sparse_array(([[1.0, 2.0]], [1]), shape=(3, 2))
    with pytest.raises(unidev.UnsupportedOperation, match=r"tostype\('default'\)"):
        unidev.sgd([x], [mx.nd.ones((3, 2))], 0.1)
    mx.nd.waitall()
