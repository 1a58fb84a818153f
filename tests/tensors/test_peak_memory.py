"""track_memory, by a counter that a backend gives; memory(device) by the driver's count too."""

from __future__ import annotations

import os
import pickle
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from made_cards import GPUS, Cuda, put_driver
from turns import in_a_thread

import unidev
from unidev.backends import driver_memory
from unidev.backends.driver_memory import gpu_meant, memory_of
from unidev.backends.loading import load_backend
from unidev.contract.backend import Memory
from unidev.contract.installation import Build
from unidev.contract.memory import DriverMemory, PeakCounter
from unidev.system.facts import Driver
from unidev.system.host_memory import free_and_total
from unidev.values import MemoryHolder

if TYPE_CHECKING:
    from unidev.device import Device


class Counter(PeakCounter):
    """A framework's: one peak for each device."""

    def __init__(self) -> None:
        self.used: dict[str, int] = {}
        self.peak: dict[str, int] = {}

    def take(self, nbytes: int, device: str = "cpu:0") -> None:
        self.used[device] = self.used.get(device, 0) + nbytes
        self.peak[device] = max(self.peak.get(device, 0), self.used[device])

    def used_bytes(self, device: Device) -> int:
        return self.used.get(str(device), 0)

    def peak_bytes(self, device: Device) -> int:
        return self.peak.get(str(device), 0)

    def restart(self, device: Device) -> None:
        self.peak[str(device)] = self.used.get(str(device), 0)


@pytest.fixture(autouse=True)
def words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a framework with GPUs, for which NumPy's backend stands in here."""
    numbers = (
        "tried to allocate {requested}", "of which {free} is free", "total capacity of {total}",
        "available memory is only {free}",
    )  # fmt: skip
    monkeypatch.setattr(type(load_backend("numpy")), "out_of_memory_numbers", numbers)


@pytest.fixture
def counter(two_gpus: None, monkeypatch: pytest.MonkeyPatch) -> Counter:
    found = Counter()
    monkeypatch.setattr(type(load_backend("numpy")), "peaks", found)
    return found


def test_the_peak_is_the_most_that_was_in_use_inside_the_block(counter: Counter) -> None:
    counter.take(900)
    counter.take(-800)  # a higher peak, before the block
    with unidev.track_memory("cpu") as peak:
        counter.take(50)
        assert (peak.start_bytes, peak.peak_bytes, peak.added_bytes) == (100, 150, 50)
        counter.take(200)
        counter.take(-250)
    counter.take(5000)
    assert (peak.start_bytes, peak.peak_bytes, peak.added_bytes) == (100, 350, 250)
    assert repr(peak) == "<peak memory of cpu:0: 350 bytes>"


def test_trackers_nest_though_the_framework_has_one_peak(counter: Counter) -> None:
    with unidev.track_memory("cpu") as outer:
        counter.take(500)
        counter.take(-500)
        with unidev.track_memory("cpu") as inner:
            counter.take(100)
        assert inner.peak_bytes == 100
        assert outer.peak_bytes == 500
        counter.take(600)
    assert (outer.peak_bytes, inner.peak_bytes) == (700, 100)


def test_trackers_of_two_devices_do_not_mix(counter: Counter) -> None:
    with unidev.track_memory("gpu:0") as first, unidev.track_memory("gpu:1") as second:
        counter.take(7, "gpu:0")
        counter.take(11, "gpu:1")
    assert (first.peak_bytes, second.peak_bytes) == (7, 11)


def test_trackers_of_two_threads_see_what_both_allocate(counter: Counter) -> None:
    with unidev.track_memory("cpu") as outer:
        counter.take(500)

        def work() -> None:
            with unidev.track_memory("cpu") as inner:
                counter.take(100)
            found.append(inner.added_bytes)

        found: list[int] = []
        in_a_thread(work)
    assert found == [100]
    assert outer.peak_bytes == 600


def test_a_tracker_ends_with_its_block_also_after_an_exception(counter: Counter) -> None:
    with pytest.raises(ZeroDivisionError), unidev.track_memory("cpu") as peak:  # noqa: PT012
        counter.take(10)
        raise ZeroDivisionError
    assert peak.peak_bytes == 10
    counter.take(90)
    assert peak.peak_bytes == 10


def test_a_tracker_is_for_one_block(counter: Counter) -> None:
    peak = unidev.track_memory("cpu")
    with pytest.raises(unidev.ScopeError, match="has not started"):
        _ = peak.peak_bytes
    assert repr(peak) == "<peak memory of cpu:0: not started>"
    with peak:
        pass
    with pytest.raises(unidev.ScopeError, match="can be entered only once"), peak:
        pass
    with pytest.raises(unidev.ScopeError, match="was not entered"):
        peak.__exit__(None, None, None)


def test_where_nobody_counts_the_peak_the_call_says_why() -> None:
    with pytest.raises(unidev.UnsupportedOperation) as caught:
        unidev.track_memory("cpu")
    assert str(caught.value) == "track_memory is not supported: NumPy does not count its memory"


def test_a_frameworks_own_lack_of_memory_inside_the_block_is_unidevs_error(counter) -> None:
    with (
        pytest.raises(
            unidev.OutOfDeviceMemoryError, match=r"running the block of `with unidev\.track_memory"
        ) as no,
        unidev.track_memory("gpu:1"),
    ):
        raise RuntimeError("CUDA out of memory. Tried to allocate 20.00 MiB")
    assert no.value.requested_bytes == 20 * 2**20
    assert isinstance(no.value.__cause__, RuntimeError)
    for error in (RuntimeError("bad"), KeyboardInterrupt(), unidev.OutOfDeviceMemoryError("ours")):
        with pytest.raises(type(error)) as kept, unidev.track_memory("gpu:1"):
            raise error
        assert kept.value is error


# -- the driver's count ----------------------------------------------------------------------------


def test_the_driver_tells_used_free_and_total_and_who_holds_it() -> None:
    assert memory_of(GPUS[0]) == DriverMemory(
        600, 400, 1000,
        (MemoryHolder(3, "big", 400), MemoryHolder(1, "small", 100), MemoryHolder(2, None, None)),
    )  # fmt: skip
    assert memory_of(GPUS[2]) is None


@pytest.mark.parametrize(
    ("index", "environment", "found"),
    [
        (1, {}, 1),
        (3, {}, None),
        (0, {"CUDA_VISIBLE_DEVICES": "1"}, 1),
        (1, {"CUDA_VISIBLE_DEVICES": "1"}, None),
        (1, {"CUDA_VISIBLE_DEVICES": "2, 0"}, 0),
        (0, {"CUDA_VISIBLE_DEVICES": "GPU-bb"}, 1),
        (0, {"CUDA_VISIBLE_DEVICES": "GPU-a"}, None),  # of two
        (0, {"CUDA_VISIBLE_DEVICES": "MIG-aaaa"}, None),
        (0, {"CUDA_VISIBLE_DEVICES": ""}, None),
        (0, {"CUDA_VISIBLE_DEVICES": "-1"}, None),
    ],
)
def test_cudas_index_is_read_as_cuda_reads_it(index, environment, found) -> None:
    assert gpu_meant(index, environment, GPUS) is (None if found is None else GPUS[found])


def test_among_different_gpus_cuda_counts_otherwise_than_the_driver_unless_told() -> None:
    mixed = (GPUS[0], replace(GPUS[1], name="NVIDIA T4"))
    assert gpu_meant(0, {}, mixed) is None
    assert gpu_meant(0, {"CUDA_VISIBLE_DEVICES": "GPU-bbbb"}, mixed) is mixed[1]
    assert gpu_meant(1, {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, mixed) is mixed[1]


def test_after_a_gpu_that_cannot_be_read_cudas_index_is_not_certain() -> None:
    first_is_lost = GPUS[1:]
    assert gpu_meant(0, {}, first_is_lost) is None
    assert gpu_meant(0, {"CUDA_VISIBLE_DEVICES": "GPU-bb"}, first_is_lost) is GPUS[1]


PARTS = tuple(
    replace(GPUS[0], uuid=uuid, used_bytes=1, total_bytes=100, parent="GPU 0, NVIDIA H200")
    for uuid in ("MIG-1", "MIG-2")
)


@pytest.mark.parametrize(
    ("visible", "found"),
    [("MIG-2", 1), ("MIG-1", 0), ("MIG-", None), ("0", None), ("GPU-aaaa", None), (None, None)],
)
def test_of_a_gpu_that_is_divided_the_count_is_that_of_the_instance(visible, found) -> None:
    environment = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    divided = (replace(GPUS[0], parts=PARTS), GPUS[1])
    assert gpu_meant(0, environment, divided) is (None if found is None else PARTS[found])
    assert gpu_meant(0, {"CUDA_VISIBLE_DEVICES": "GPU-bb"}, divided) is GPUS[1]


@pytest.fixture
def with_driver(two_gpus: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy taken for a framework with real GPUs, whose driver is asked."""
    put_driver(monkeypatch, *GPUS)
    cls = type(load_backend("numpy"))
    monkeypatch.setattr(cls, "memory", lambda self, device: Memory(300, 400, 1000))


def test_memory_of_a_gpu_has_the_frameworks_count_and_the_drivers(with_driver: None) -> None:
    memory = unidev.memory("gpu:0")
    assert memory == (300, 400, 1000)
    assert memory.driver == memory_of(GPUS[0])
    back = pickle.loads(pickle.dumps(memory))
    assert (back, back.driver) == (memory, memory.driver)
    used, free, total = memory
    assert used + free < total


def test_what_the_frameworks_allocator_keeps_stays_beside_the_drivers_count(
    with_driver: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert unidev.memory("gpu:0").reserved_bytes is None
    counted = Memory(300, 400, 1000).with_reserved(350)
    monkeypatch.setattr(type(load_backend("numpy")), "memory", lambda self, device: counted)
    memory = pickle.loads(pickle.dumps(unidev.memory("gpu:0")))
    assert memory == (300, 400, 1000)
    assert (memory.reserved_bytes, memory.driver) == (350, memory_of(GPUS[0]))
    assert unidev.memory("cpu").reserved_bytes == 350


def test_memory_of_an_instance_names_its_parent(with_driver: None, monkeypatch) -> None:
    put_driver(monkeypatch, replace(GPUS[0], parts=PARTS[:1]))
    found = unidev.memory("gpu:0").driver
    assert found is not None
    assert (found.used_bytes, found.total_bytes) == (1, 100)
    assert found.parent == "GPU 0, NVIDIA H200"


@pytest.mark.parametrize("is_known_by", ["driver", "framework"])
def test_of_shared_memory_free_and_total_are_the_hosts(
    with_driver: None, monkeypatch: pytest.MonkeyPatch, is_known_by: str
) -> None:
    monkeypatch.setattr(driver_memory, "free_and_total", lambda: (7000, 9000))
    put_driver(monkeypatch, replace(GPUS[0], shares_host_memory=is_known_by == "driver"))
    cls = type(load_backend("numpy"))
    monkeypatch.setattr(cls, "shares_host_memory", lambda *_: is_known_by == "framework")
    counted = Memory(300, 400, 1000).with_reserved(350)
    monkeypatch.setattr(cls, "memory", lambda self, device: counted)
    memory = pickle.loads(pickle.dumps(unidev.memory("gpu:0")))
    assert memory == (300, 7000, 9000)
    assert (memory.is_shared, memory.reserved_bytes, memory.driver) == (True, 350, None)
    assert "shared with the host" in memory._repr_html_()
    monkeypatch.setattr(driver_memory, "free_and_total", lambda: (None, None))
    assert unidev.memory("gpu:0") == (300, 400, 1000)


def test_shared_memory_that_ran_out_is_the_hosts(with_driver: None, monkeypatch) -> None:
    put_driver(monkeypatch, replace(GPUS[0], shares_host_memory=True))

    def fails(self, *_):
        raise RuntimeError(
            "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of "
            "7.94 GiB of which 1.00 MiB is free."
        )

    monkeypatch.setattr(type(load_backend("numpy")), "zeros", fails)
    with pytest.raises(unidev.OutOfDeviceMemoryError) as caught:
        unidev.zeros((2, 3), device="gpu:0")
    assert "gpu:0 shares the host's memory." in str(caught.value)
    assert caught.value.total_bytes == free_and_total()[1]


def test_free_and_total_of_an_error_are_of_one_source(with_driver: None, monkeypatch) -> None:
    def fails(self, *_):
        raise RuntimeError("Out of memory error on GPU 0: available memory is only 1.00MiB.")

    monkeypatch.setattr(type(load_backend("numpy")), "zeros", fails)
    with pytest.raises(unidev.OutOfDeviceMemoryError) as caught:
        unidev.zeros((2, 3), device="gpu:0")
    assert (caught.value.free_bytes, caught.value.total_bytes) == (2**20, None)


def test_memory_of_a_cpu_or_without_a_driver_has_none(with_driver: None, monkeypatch) -> None:
    assert unidev.memory("cpu").driver is None
    monkeypatch.setattr(driver_memory, "ask_nvml", lambda *_: Driver("cuda", "no library"))
    assert unidev.memory("gpu:0").driver is None
    monkeypatch.setattr(Cuda, "build", lambda self: Build(accelerator="rocm"))
    monkeypatch.setattr(driver_memory, "ask_nvml", lambda *_: pytest.fail("NVIDIA was asked"))
    assert unidev.memory("gpu:0").driver is None


def test_the_driver_is_asked_for_the_card_that_the_framework_has_renumbered(
    with_driver: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    cls = type(load_backend("numpy"))
    assert load_backend("numpy").hardware_index("gpu", 1) == 1
    monkeypatch.setattr(cls, "hardware_index", lambda self, kind, index: 1 - index)
    assert unidev.memory("gpu:0").driver == memory_of(GPUS[1])
    assert unidev.memory("gpu:1").driver == memory_of(GPUS[0])
    monkeypatch.setattr(cls, "hardware_index", lambda self, kind, index: None)
    assert unidev.memory("gpu:0").driver is None


def test_a_card_that_the_framework_does_not_name_has_the_drivers_name(
    with_driver: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    cls = type(load_backend("numpy"))
    monkeypatch.setattr(cls, "hardware_name", lambda self, kind, index: f"{kind}:{index}")
    assert unidev.gpu(1).name == "NVIDIA H200"
    assert unidev.cpu().name == "cpu:0"
    monkeypatch.setattr(cls, "hardware_name", lambda self, kind, index: "a card")
    assert unidev.gpu(1).name == "a card"
    monkeypatch.setattr(cls, "hardware_name", lambda self, kind, index: f"{kind}:{index}")
    monkeypatch.setattr(driver_memory, "ask_nvml", lambda *_: Driver("cuda", "no library"))
    assert unidev.gpu(1).name == "gpu:1"


def test_a_simulated_gpu_does_not_have_the_name_of_a_real_one(
    two_gpus: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    cls = type(load_backend("numpy"))
    monkeypatch.setattr(cls, "hardware_name", lambda self, kind, index: f"{kind}:{index}")
    monkeypatch.setattr(driver_memory, "ask_nvml", lambda *_: pytest.fail("NVIDIA was asked"))
    assert unidev.gpu(1).name == "gpu:1"


def test_memory_that_ran_out_on_a_gpu_is_told_with_who_holds_it(with_driver, monkeypatch) -> None:
    def fails(self, *_):
        raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total")

    monkeypatch.setattr(type(load_backend("numpy")), "zeros", fails)
    monkeypatch.setattr(os, "getpid", lambda: 1)
    with pytest.raises(unidev.OutOfDeviceMemoryError) as caught:
        unidev.zeros((2, 3), device="gpu:0")
    error = caught.value
    assert error.device is unidev.gpu(0)
    assert (error.requested_bytes, error.free_bytes, error.total_bytes) == (2**31, 400, 1000)
    assert [holder.pid for holder in error.holders] == [3, 1, 2]
    assert (
        "Requested: 2 GiB. Free on gpu:0: 400 bytes of 1,000 bytes. Held "
        "by process 3 (big): 400 bytes, process 1 (this process): 100 bytes, process 2 (name "
        "unknown): an unknown amount." in str(error)
    )
