"""The state of GPUs, as NVIDIA's driver reports it."""

from __future__ import annotations

from fake_nvml import FakeNvml

from unidev.system.gpu_state import GpuState, read_states


def test_clocks_power_and_modes_are_read_and_what_is_not_reported_is_unknown() -> None:
    nvml = FakeNvml()
    assert read_states(nvml) == (
        GpuState(
            index=0, name="NVIDIA H200", uuid="GPU-1", cores=16896, performance_state="P8",
            sm_mhz=345, sm_most_mhz=1980, memory_mhz=3201, memory_most_mhz=3201,
            utilisation_percent=35, power_w=76.5, power_limit_w=700.0,
            temperature_c=27, throttled_by="0x1", ecc="on", mig=None, persistence="off",
            compute_mode="exclusive process", pcie_generation=None, pcie_width=16,
        ),
    )  # fmt: skip
    assert not nvml.is_open


def test_a_gpu_that_is_lost_has_no_state_and_the_others_have() -> None:
    states = read_states(FakeNvml(gpus=3, broken={1: ("handle", 15)}))
    assert [each.index for each in states] == [0, 2]


def test_without_a_driver_there_is_no_state() -> None:
    assert read_states(FakeNvml(init=9)) == ()
    assert read_states(FakeNvml(count=999)) == ()


def test_a_gpu_that_is_divided_says_so() -> None:
    assert read_states(FakeNvml(mig=1))[0].mig == "on"


def test_utilisation_that_is_not_reported_is_unknown() -> None:
    state = read_states(FakeNvml(mig=1, broken={0: ("utilisation", 3)}))[0]
    assert (state.utilisation_percent, state.power_w) == (None, 76.5)
