"""Which device is fastest: decided by timings that are given, and run on devices that are there."""

from __future__ import annotations

import numpy as np
import pytest
from bench_samples import trial

import unidev
from unidev import nn
from unidev.backends.loading import load_backend
from unidev.bench import fastest
from unidev.bench.report import DeviceReport, Trial
from unidev.bench.spread import Summary
from unidev.device import Device


def report(*trials: Trial) -> DeviceReport:
    return DeviceReport(trials=trials, left_out={})


# -- decided by timings ----------------------------------------------------------------------------


def test_the_cpu_wins_where_the_work_is_small(two_gpus: None) -> None:
    told = report(trial("cpu", 0, 1e-4, 0), trial("gpu:0", 2e-5, 1e-3, 2e-5))
    assert (told.device, told.is_too_close) == (unidev.cpu(), False)
    assert told.conclusion == "cpu:0 is 10.4 times as fast as gpu:0."


def test_the_gpu_wins_where_the_work_is_large(two_gpus: None) -> None:
    told = report(trial("cpu", 0, 1.0, 0), trial("gpu:0", 0.05, 0.1, 0.05))
    assert (told.device, told.is_too_close) == (unidev.gpu(0), False)
    assert told.conclusion == "gpu:0 is 5 times as fast as cpu:0."


def test_where_the_spread_is_larger_than_the_difference_it_is_too_close_to_call(two_gpus) -> None:
    told = report(trial("cpu", 0, 1.1, 0), trial("gpu:0", 0, 1.0, 0), trial("gpu:1", 0, 9.0, 0))
    assert told.is_too_close
    assert told.device is unidev.cpu()
    assert told.conclusion == (
        "cpu:0 and gpu:0 are too close to call: their timings overlap."
    )  # fmt: skip
    assert "too close to call" in str(told)


def test_a_gpu_that_wins_only_without_the_journey_is_told_apart(two_gpus: None) -> None:
    told = report(trial("cpu", 0, 1.0, 0), trial("gpu:0", 2.0, 0.1, 0.4))
    assert told.device is unidev.cpu()
    assert told.conclusion == (
        "cpu:0 is 2.5 times as fast as gpu:0. gpu:0 computes 10 times as fast as cpu:0, but "
        "moving the data costs more than that gains: keep the data on gpu:0 if it is used several "
        "times."
    )


def test_the_faster_of_two_gpus_is_compared_with_the_second_fastest(two_gpus: None) -> None:
    told = report(trial("cpu", 0, 9, 0), trial("gpu:0", 0, 2, 0), trial("gpu:1", 0, 1, 0))
    assert told.conclusion == "gpu:1 is 2 times as fast as gpu:0."


def test_a_report_prints_as_a_table_with_the_journey_named_apart(two_gpus: None) -> None:
    told = DeviceReport(
        trials=(trial("cpu", 0, 1.0, 0), trial("gpu:0", 2.0, 0.1, 0.4)),
        left_out={"gpu:1": "it fell"},
    )
    assert str(told).splitlines()[:4] == [
        "device  there  computing                 back    total",
        "cpu:0   0 ns   1 s (900 ms to 1.1 s)     0 ns    1 s (900 ms to 1.1 s)",
        "gpu:0   2 s    100 ms (90 ms to 110 ms)  400 ms  2.5 s (2.25 s to 2.75 s)",
        "gpu:1 is left out: it fell",
    ]
    assert str(told).endswith(told.conclusion)


def test_placing_models_has_a_column_where_there_are_some(two_gpus: None) -> None:
    told = report(trial("cpu", 0, 1, 0, placing_s=0.5), trial("gpu:0", 0, 1, 0, placing_s=0.25))
    lines = str(told).splitlines()
    assert lines[0].endswith("placing, once")
    assert lines[1].endswith("500 ms")


# -- run on devices --------------------------------------------------------------------------------


@pytest.fixture
def as_if_real(two_gpus: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy's simulated GPUs, taken for real ones."""
    monkeypatch.setattr(Device, "is_simulated", property(lambda self: False))


def test_a_machine_with_a_cpu_alone_has_nothing_to_compare() -> None:
    told = unidev.fastest_device(lambda: unidev.ones(3) + 1)
    assert told.device is unidev.cpu()
    assert told.conclusion == "cpu:0: there is no other real device to compare it with."
    assert not told.is_too_close


@pytest.mark.parametrize("devices", ["cpu", 3])
def test_devices_that_are_no_list_are_refused(devices) -> None:
    with pytest.raises(unidev.InvalidDataError, match="devices must be a list of devices"):
        unidev.fastest_device(lambda x: x, unidev.ones(3), devices=devices)


@pytest.mark.parametrize("function", [5, None, np.ones(2)])
def test_what_is_no_function_is_refused(function) -> None:
    with pytest.raises(unidev.InvalidDataError, match="fastest_device takes a function, then its"):
        unidev.fastest_device(function, 1)


def test_an_empty_list_of_devices_is_said() -> None:
    with pytest.raises(unidev.DeviceNotFoundError, match="devices is empty"):
        unidev.fastest_device(lambda x: x, unidev.ones(3), devices=[])


def test_simulated_devices_are_left_out_with_the_reason(two_gpus: None) -> None:
    told = unidev.fastest_device(lambda x: x + x, unidev.ones(3))
    assert [each.device for each in told.trials] == [unidev.cpu()]
    assert list(told.left_out) == ["gpu:0", "gpu:1"]
    assert "gpu:0 is left out: it is simulated" in str(told)
    with pytest.raises(unidev.DeviceNotFoundError, match="gpu:1: it is simulated"):
        unidev.fastest_device(lambda x: x + x, unidev.ones(3), devices=["gpu:1"])


def test_the_function_runs_on_each_device_with_its_arguments_there(as_if_real: None) -> None:
    seen = []

    def function(x, y, factor):
        made = unidev.zeros(3)
        unidev.check_same_device(x, y, made)
        seen.append(str(unidev.device_of(x)))
        return {"sum": (x + y["y"] + made) * factor, "name": "z"}

    x, y = unidev.ones(3, device="gpu:1"), {"y": unidev.ones(3, device="gpu:1")}
    told = unidev.fastest_device(function, x, y, 2, repeat=3)
    assert seen == ["cpu:0"] * 5 + ["gpu:0"] * 5 + ["gpu:1"] * 5
    assert [str(each.device) for each in told.trials] == ["cpu:0", "gpu:0", "gpu:1"]
    assert all(each.total.timings == 3 for each in told.trials)
    assert unidev.device_of(x) is unidev.gpu(1)


def test_journeys_and_computing_are_timed_apart_and_add_up(as_if_real: None, monkeypatch) -> None:
    now = [0.0]
    backend = load_backend("numpy")
    copy_to = type(backend).copy_to

    def slow_copy(self, x, device, non_blocking):
        now[0] += 1.0 if device.kind == "gpu" else 0.25
        return copy_to(self, x, device, non_blocking)

    def function(x):
        now[0] += 10.0
        return x + x

    monkeypatch.setattr(type(backend), "copy_to", slow_copy)
    monkeypatch.setattr(fastest.time, "perf_counter", lambda: now[0])
    told = unidev.fastest_device(function, unidev.ones(3), repeat=4, devices=["cpu", "gpu:1"])
    on_cpu, on_gpu = told.trials
    assert [on_cpu.there.median_s, on_cpu.computing.median_s, on_cpu.back.median_s] == [0, 10, 0]
    assert [on_gpu.there.median_s, on_gpu.computing.median_s, on_gpu.back.median_s] == [1, 10, 0.25]
    assert on_gpu.total == Summary(11.25, 11.25, 11.25, 4)
    assert told.device is unidev.cpu()


def test_a_model_is_placed_on_each_device_and_is_back_in_the_end(as_if_real: None) -> None:
    net = nn.sequential(nn.dense(4, 3), nn.relu())
    unidev.place(net, "gpu:1")
    seen = []

    def function(net, x):
        seen.append(str(unidev.device_of(net)))
        return net(x)

    told = unidev.fastest_device(function, net, unidev.ones((2, 4)), repeat=3)
    assert seen == ["cpu:0"] * 5 + ["gpu:0"] * 5 + ["gpu:1"] * 5
    assert unidev.device_of(net) is unidev.gpu(1)
    assert all(each.placing_s is not None for each in told.trials)

    def fails(net):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        unidev.fastest_device(fails, net)
    assert unidev.device_of(net) is unidev.gpu(1)


def test_a_device_with_too_little_memory_is_left_out(as_if_real: None, monkeypatch) -> None:
    words = ("tried to allocate {requested}",)
    monkeypatch.setattr(type(load_backend("numpy")), "out_of_memory_numbers", words)

    def function(x):
        if unidev.device_of(x) is unidev.gpu(0):
            raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return x

    told = unidev.fastest_device(function, unidev.ones(3), repeat=3)
    assert [str(each.device) for each in told.trials] == ["cpu:0", "gpu:1"]
    assert told.left_out["gpu:0"].startswith("numpy ran out of memory while running the function")
    with pytest.raises(unidev.OutOfDeviceMemoryError) as caught:
        unidev.fastest_device(function, unidev.ones(3), devices=["gpu:0"])
    assert caught.value.requested_bytes == 2**31


def test_other_errors_of_the_function_are_its_users(as_if_real: None, monkeypatch) -> None:
    with pytest.raises(ValueError, match="operands could not be broadcast"):
        unidev.fastest_device(lambda x, y: x + y, np.ones(2), np.ones(3))

    def of_earlier_work(*_: object) -> None:  # as MXNet raises it, wherever it waits
        raise ValueError("operands could not be broadcast")

    monkeypatch.setattr(type(load_backend("numpy")), "synchronize", of_earlier_work)
    with pytest.raises(unidev.FrameworkError, match="while synchronizing cpu:0"):
        unidev.fastest_device(lambda x: x, np.ones(2))


@pytest.mark.parametrize("repeat", [2, 0, -1, 2.5, "many", None])
def test_a_repeat_that_tells_nothing_is_refused(repeat: object) -> None:
    with pytest.raises(unidev.InvalidDataError, match="repeat must be an integer of at least 3"):
        unidev.fastest_device(lambda: None, repeat=repeat)  # type: ignore[arg-type]
