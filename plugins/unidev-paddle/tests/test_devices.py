from __future__ import annotations

from types import SimpleNamespace

import pytest

import unidev
from unidev_paddle.devices import Accelerator, parse_name, real


def machine(cuda=0, xpu=0, **custom):
    """What Paddle's core reports on a machine with these devices."""
    return SimpleNamespace(
        is_compiled_with_cuda=lambda: cuda > 0,
        get_cuda_device_count=lambda: cuda,
        is_compiled_with_xpu=lambda: xpu > 0,
        get_xpu_device_count=lambda: xpu,
        get_all_custom_device_type=lambda: list(custom),
        get_custom_device_count=custom.__getitem__,
        CUDAPlace=lambda index: ("CUDAPlace", index),
        XPUPlace=lambda index: ("XPUPlace", index),
        CustomPlace=lambda kind, index: (kind, index),
    )


def test_every_accelerator_is_a_gpu_cuda_first():
    core = machine(cuda=2, xpu=1, npu=1, mlu=1)
    assert [str(each) for each in real(core)] == ["gpu:0", "gpu:1", "xpu:0", "mlu:0", "npu:0"]
    places = [each.place(core) for each in real(core)]
    assert places == [("CUDAPlace", 0), ("CUDAPlace", 1), ("XPUPlace", 0), ("mlu", 0), ("npu", 0)]


def test_a_leftover_of_the_simulator_is_no_real_device():
    assert real(machine(sim=2, sim16=1, simplex=1)) == [Accelerator("simplex", 0)]


@pytest.mark.parametrize(
    ("name", "means"),
    [
        ("cuda", ("gpu", 0)),
        ("cuda:1", ("gpu", 1)),
        ("gpu:1", ("gpu", 1)),
        ("xpu:0", ("gpu", 2)),
        ("npu:1", ("gpu", 4)),
        ("xpu:1", ("gpu", 5)),  # not there: one past the end, never the npu's
        ("cuda:7", ("gpu", 7)),
        ("cuda:-1", ("gpu", -1)),
        ("mlu:0", None),
        ("cuda:x", None),
        ("", None),
        ("cpu:0:1", None),
    ],
)
def test_paddles_spelling_finds_the_device_it_means(name, means):
    assert parse_name(name, real(machine(cuda=2, xpu=1, npu=2))) == means


@pytest.mark.parametrize(
    ("spelling", "error"),
    [
        ("cuda:0", unidev.DeviceSpecError),
        ("Place(cpu)", unidev.DeviceSpecError),
        ("gpu:" + 5000 * "9", unidev.DeviceSpecError),
        ("sim:" + 5000 * "9", unidev.DeviceSpecError),
    ],
)
def test_what_is_no_device_here_is_an_error(spelling, error):
    with pytest.raises(error):
        unidev.as_device(spelling)
