"""NVIDIA's driver as nvidia-ml-py gives it, made up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


class NvmlError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(f"error {value}")
        self.value = value


_OF_EACH = {
    "nvmlSystemGetDriverVersion": b"570.86.15",  # bytes, in early versions
    "nvmlSystemGetCudaDriverVersion_v2": 12080,
    "nvmlDeviceGetNumGpuCores": 16896,
    "nvmlDeviceGetPerformanceState": 8,
    "nvmlDeviceGetPowerUsage": 76_500,
    "nvmlDeviceGetEnforcedPowerLimit": 700_000,
    "nvmlDeviceGetTemperature": 27,
    "nvmlDeviceGetCurrentClocksThrottleReasons": 1,
    "nvmlDeviceGetEccMode": [1, 0],
    "nvmlDeviceGetPersistenceMode": 0,
    "nvmlDeviceGetComputeMode": 3,
    "nvmlDeviceGetCurrPcieLinkWidth": 16,
    "nvmlDeviceGetMaxMigDeviceCount": 3,
}
"""What these functions return, whatever they are called with."""


class FakeNvml:
    """The part of pynvml that is used, of a machine with H200s, one unless `gpus` says otherwise.

    ``broken`` maps the index of a GPU to the function that fails for it, and its error.
    """

    NVMLError = NvmlError
    NVML_ERROR_LIBRARY_NOT_FOUND = 12
    NVML_ERROR_DRIVER_NOT_LOADED = 9
    NVML_ERROR_NOT_SUPPORTED = 3
    NVML_ERROR_NO_PERMISSION = 4
    NVML_ERROR_LIB_RM_VERSION_MISMATCH = 18
    NVML_ERROR_GPU_IS_LOST = 15
    NVML_ERROR_RESET_REQUIRED = 16

    def __init__(
        self,
        *,
        init: int | None = None,
        count: int | None = None,
        mig: int = 0,
        gpus: int = 1,
        broken: dict[int, tuple[str, int]] | None = None,
        capability: tuple[int, int] = (9, 0),
    ) -> None:
        self.init, self.count, self.mig, self.gpus = init, count, mig, gpus
        self.broken = broken or {}
        self.capability = capability
        self.is_open = False

    def nvmlInit(self) -> None:
        if self.init is not None:
            raise NvmlError(self.init)
        self.is_open = True

    def nvmlShutdown(self) -> None:
        assert self.is_open
        self.is_open = False

    def nvmlDeviceGetCount(self) -> int:
        if self.count is not None:
            raise NvmlError(self.count)
        return self.gpus

    def _check(self, handle: str, function: str) -> None:
        name, error = self.broken.get(int(handle[-1]), ("", 0))
        if name == function:
            raise NvmlError(error)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:
        self._check(str(index), "handle")
        return f"handle {index}"

    def nvmlDeviceGetName(self, handle: str) -> str:
        self._check(handle, "name")
        return "NVIDIA H200 MIG 1g.18gb" if handle == "part 1" else "NVIDIA H200"

    def nvmlDeviceGetUUID(self, handle: str) -> str:
        return "MIG-1" if handle == "part 1" else f"GPU-{int(handle[-1]) + 1}"

    def nvmlDeviceGetCudaComputeCapability(self, handle: str) -> tuple[int, int]:
        return self.capability

    def nvmlDeviceGetMemoryInfo(self, handle: str) -> Any:
        if handle == "part 1":
            return SimpleNamespace(used=1, free=1, total=2)
        self._check(handle, "memory")
        return SimpleNamespace(used=3, free=7, total=10)

    def nvmlDeviceGetComputeRunningProcesses(self, handle: str) -> list[Any]:
        return [SimpleNamespace(pid=1, usedGpuMemory=2), SimpleNamespace(pid=2, usedGpuMemory=None)]

    def nvmlDeviceGetClockInfo(self, handle: str, clock: int) -> int:
        return {1: 345, 2: 3201}[clock]

    def nvmlDeviceGetMaxClockInfo(self, handle: str, clock: int) -> int:
        return {1: 1980, 2: 3201}[clock]

    def nvmlDeviceGetUtilizationRates(self, handle: str) -> Any:
        self._check(handle, "utilisation")
        return SimpleNamespace(gpu=35, memory=4)

    def nvmlDeviceGetCurrPcieLinkGeneration(self, handle: str) -> int:
        raise NvmlError(3)

    def nvmlDeviceGetMigMode(self, handle: str) -> list[int]:
        if not self.mig:
            raise NvmlError(3)
        return [1, 1]

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: str, index: int) -> str:
        if index != 1:
            raise NvmlError(6)
        return f"part {index}"


for _name, _answer in _OF_EACH.items():
    setattr(FakeNvml, _name, lambda *_, answer=_answer: answer)
