"""``convert`` between NumPy and Paddle."""

from __future__ import annotations

import paddle

import unidev


def test_a_tensor_with_a_gradient_is_shared_without_it() -> None:
    x = paddle.to_tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], place=paddle.CPUPlace())
    x.stop_gradient = False
    y = unidev.convert(x, "numpy", copy=False)
    assert y.ctypes.data == x.data_ptr()
    assert unidev.convert(y, "paddle").stop_gradient
    y[0, 0] = 7
    assert float(x[0, 0]) == 7


def test_shared_memory_is_kept_when_its_tensor_is_resized():
    x = paddle.ones([1000]).cpu()
    y = unidev.convert(x, "numpy", copy=False)
    x.resize_([100_000], fill_zero=True)
    assert x.shape == [100_000]
    others = [paddle.zeros([1000]).cpu() for _ in range(50)]  # would be in its memory
    assert y.sum() == 1000
    assert all(other.data_ptr() != y.ctypes.data for other in others)
