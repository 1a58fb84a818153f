from __future__ import annotations

import itertools

import paddle
import pytest

import unidev

CPU, GPU, OTHER = unidev.cpu(), unidev.gpu(0), unidev.gpu(2)
PAIRS = list(itertools.product([CPU, GPU, OTHER], repeat=2))


def tensor(values, device=CPU, *, stop_gradient=True):
    return paddle.to_tensor(values, place=device.native, stop_gradient=stop_gradient)


def test_paddles_own_move_still_cuts_the_gradient():
    # Why copying.py exists. When this fails, Paddle has been mended.
    x = tensor([1.0], GPU, stop_gradient=False)
    y = x.to(OTHER.native)
    (y * y).sum().backward()
    assert not y.stop_gradient
    assert x.grad is None


@pytest.mark.parametrize("stop_gradient", [True, False])
@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_a_copy_of_a_parameter_is_a_tensor_and_no_parameter(source, target, stop_gradient):
    parameter = paddle.base.framework.EagerParamBase.from_tensor(tensor([1.0, 2.0], source))
    parameter.stop_gradient = stop_gradient
    copied = unidev.copy_to(parameter, target)
    assert type(copied) is paddle.Tensor
    assert copied.stop_gradient is stop_gradient
    assert unidev.as_in_device(parameter, source) is parameter


@pytest.mark.filterwarnings("ignore:CustomPlace only support float16 amp:UserWarning")
def test_a_copy_keeps_its_dtype_under_amp():
    x = tensor([1.0], CPU, stop_gradient=False)
    with paddle.amp.auto_cast(level="O2", dtype="bfloat16"):
        assert [unidev.copy_to(x, d).dtype for d in (CPU, GPU)] == [paddle.float32] * 2


@pytest.mark.parametrize("device", [CPU, GPU])
@pytest.mark.parametrize("name", ["bfloat16", "float32", "float64"])
def test_numbers_too_small_for_float16_become_zero(device, name):
    x = unidev.array([4e-24, 6e-8, 1.0], dtype=name, device=device)
    half = unidev.array(x, dtype="float16", device=device)
    expected = unidev.to_numpy(x.cast("float32")).astype("float16")  # Paddle's: 7e-05 for 4e-24
    assert unidev.to_numpy(half).tolist() == expected.tolist()
    assert unidev.device_of(half) is unidev.device_of(x)
