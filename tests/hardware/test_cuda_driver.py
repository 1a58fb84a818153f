"""The CUDA version of NVIDIA's driver, by a made-up nvidia-ml-py."""

from __future__ import annotations

from typing import Any

import pytest
from fake_nvml import FakeNvml, NvmlError

from unidev.hardware import cuda_driver


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    fake = FakeNvml()
    monkeypatch.setattr(cuda_driver, "import_nvml", lambda: fake)
    return fake


def test_the_version_is_that_of_the_driver(nvml: FakeNvml) -> None:
    assert cuda_driver.driver_cuda_version() == (12, 8)
    assert not nvml.is_open


def test_without_a_driver_there_is_none(nvml: FakeNvml) -> None:
    nvml.init = FakeNvml.NVML_ERROR_DRIVER_NOT_LOADED
    assert cuda_driver.driver_cuda_version() is None


def test_a_driver_that_does_not_answer_leaves_nothing_open(
    nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails() -> int:
        raise NvmlError(999)

    monkeypatch.setattr(nvml, "nvmlSystemGetCudaDriverVersion_v2", fails)
    assert cuda_driver.driver_cuda_version() is None
    assert not nvml.is_open


@pytest.mark.parametrize("module", [None, object()])
def test_without_nvidia_ml_py_or_with_another_module_of_its_name_there_is_none(
    monkeypatch: pytest.MonkeyPatch, module: Any
) -> None:
    monkeypatch.setattr(cuda_driver, "import_nvml", lambda: module)
    assert cuda_driver.driver_cuda_version() is None
