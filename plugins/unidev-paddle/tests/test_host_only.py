"""Without any accelerator shorter ways are taken; what they must not lose."""

from __future__ import annotations

PROGRAM = """
import unidev
unidev.set_backend("paddle")
import numpy as np
import paddle

assert unidev.list_devices() == [unidev.cpu()]
x = paddle.to_tensor([[1.0, 2.0], [3.0, 4.0]], stop_gradient=False)
plain = x.detach()
empty = paddle.zeros([0, 3])
for tensor in (x, plain, plain.T, plain[2:], empty, paddle.to_tensor(1.0)):
    copied = unidev.copy_to(tensor, "cpu")
    assert unidev.device_of(tensor) is unidev.device_of(copied) is unidev.cpu()
    assert unidev.as_in_device(tensor, "cpu") is tensor
    assert not unidev.shares_memory(tensor, copied)
    assert copied.stop_gradient is tensor.stop_gradient
    assert copied.numpy().tolist() == tensor.numpy().tolist()

(unidev.copy_to(x, "cpu") ** 2).sum().backward()
assert x.grad.numpy().tolist() == [[2, 4], [6, 8]]

frozen = paddle.base.framework.EagerParamBase.from_tensor(plain.clone())
frozen.stop_gradient = True
assert type(unidev.copy_to(frozen, "cpu")) is paddle.Tensor


def error(act):
    try:
        act()
    except unidev.UnidevError as error:
        return type(error).__name__


deleted = paddle.ones([2])
deleted._clear_data()
sparse = paddle.sparse.sparse_coo_tensor([[0], [1]], [1.0], [2, 2])
print(
    error(lambda: unidev.as_in_device(deleted, "cpu")),
    error(lambda: unidev.copy_to(deleted, "cpu")),
)
print(error(lambda: unidev.copy_to(sparse, "cpu")), error(lambda: unidev.to_numpy(sparse)))
print(error(lambda: unidev.gpu()), error(lambda: unidev.as_device("cuda:0")))
paddle.enable_static()
symbol = paddle.static.data("symbol", [2])
print(error(lambda: unidev.copy_to(plain, "cpu")), error(lambda: unidev.device_of(symbol)))
"""


def test_the_shorter_ways_lose_nothing(run_python):
    done = run_python(PROGRAM, UNIDEV_SIMULATE=None)
    assert done.stdout.splitlines() == [
        "DeletedTensorError DeletedTensorError",
        "None UnsupportedOperation",
        "DeviceNotFoundError DeviceSpecError",
        "UnsupportedOperation UnsupportedOperation",
    ], done.stderr
