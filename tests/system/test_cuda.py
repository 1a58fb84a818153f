"""CUDA's version by a made-up nvidia-ml-py, and the GPUs with a context by a made-up driver."""

from __future__ import annotations

from typing import Any

import pytest
from fake_nvml import FakeNvml, NvmlError

from unidev.errors import UnsupportedOperation
from unidev.system import cuda


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    fake = FakeNvml()
    monkeypatch.setattr(cuda, "import_nvml", lambda: fake)
    return fake


def test_the_version_is_that_of_the_driver(nvml: FakeNvml) -> None:
    assert cuda.driver_cuda_version() == (12, 8)
    assert not nvml.is_open


def test_without_a_driver_there_is_none(nvml: FakeNvml) -> None:
    nvml.init = FakeNvml.NVML_ERROR_DRIVER_NOT_LOADED
    assert cuda.driver_cuda_version() is None


def test_a_driver_that_does_not_answer_leaves_nothing_open(
    nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails() -> int:
        raise NvmlError(999)

    monkeypatch.setattr(nvml, "nvmlSystemGetCudaDriverVersion_v2", fails)
    assert cuda.driver_cuda_version() is None
    assert not nvml.is_open


@pytest.mark.parametrize("module", [None, object()])
def test_without_nvidia_ml_py_or_with_another_module_of_its_name_there_is_none(
    monkeypatch: pytest.MonkeyPatch, module: Any
) -> None:
    monkeypatch.setattr(cuda, "import_nvml", lambda: module)
    assert cuda.driver_cuda_version() is None


class HalfDivided(FakeNvml):
    """Of two cards the second is whole."""

    def nvmlDeviceGetMigMode(self, handle: str) -> list[int]:
        if handle == "handle 1":
            raise NvmlError(self.NVML_ERROR_NOT_SUPPORTED)
        return super().nvmlDeviceGetMigMode(handle)


@pytest.mark.parametrize(
    ("module", "of_all", "of_some"),
    [
        (FakeNvml(gpus=2), False, False),
        (FakeNvml(gpus=2, mig=1), True, True),
        (HalfDivided(gpus=2, mig=1), True, False),
        (FakeNvml(gpus=2, mig=1, broken={0: ("handle", 15)}), True, False),
        (FakeNvml(init=9, mig=1), False, False),
        (None, False, False),
        (object(), False, False),
    ],
)
def test_of_divided_cards_cuda_has_one_instance(
    monkeypatch: pytest.MonkeyPatch, module: Any, of_all: bool, of_some: bool
) -> None:
    monkeypatch.setattr(cuda, "import_nvml", lambda: module)
    assert cuda.has_one_instance({}) is of_all
    assert cuda.has_one_instance({"CUDA_VISIBLE_DEVICES": "1"}) is of_some


class FakeDriver:
    """``libcuda`` with two devices; ``fails`` names a function that does."""

    def __init__(self, active: set[int], fails: str = "") -> None:
        self.active = active
        self.fails = fails
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> int:
            self.calls.append(name)
            if name == self.fails:
                return 100
            return int(getattr(self, f"_{name}")(*arguments))

        return call

    def _cuInit(self, flags: int) -> int:
        return flags

    def _cuDeviceGetCount(self, count: Any) -> int:
        count._obj.value = 2
        return 0

    def _cuDeviceGet(self, device: Any, index: int) -> int:
        device._obj.value = 70 + index  # a handle is not the index
        return 0

    def _cuDevicePrimaryCtxGetState(self, device: Any, flags: Any, active: Any) -> int:
        flags._obj.value = 4
        active._obj.value = device.value - 70 in self.active
        return 0


@pytest.mark.parametrize("active", [set(), {1}, {0, 1}])
def test_the_devices_with_a_context_are_named_by_their_index(
    active: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda, "_loaded", lambda: FakeDriver(active))
    assert cuda.indices_with_context() == sorted(active)


@pytest.mark.parametrize("name", ["cuInit", "cuDeviceGetCount", "cuDevicePrimaryCtxGetState"])
def test_a_driver_that_fails_reports_nothing_and_says_so(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda, "_loaded", lambda: FakeDriver({0}, name))
    with pytest.raises(UnsupportedOperation, match=rf"CUDA's {name} failed with error 100"):
        cuda.indices_with_context()


def test_without_a_driver_it_is_unsupported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "_LIBRARY", "libnothing-of-that-name.so.1")
    with pytest.raises(UnsupportedOperation, match="there is none"):
        cuda.indices_with_context()
