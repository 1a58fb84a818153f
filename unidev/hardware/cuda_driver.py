"""The CUDA version of NVIDIA's driver, without using CUDA."""

from __future__ import annotations

import contextlib

from unidev.hardware.nvml import import_nvml


def driver_cuda_version() -> tuple[int, int] | None:
    """The newest CUDA version that NVIDIA's driver supports, such as ``(12, 4)``.

    From NVML, which initialises no CUDA, so that a later ``fork`` still works; None if there is no
    driver, or if nvidia-ml-py is missing.
    """
    nvml = import_nvml()
    ask = getattr(nvml, "nvmlSystemGetCudaDriverVersion_v2", None)
    if nvml is None or ask is None:
        return None
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return None
    try:
        number = ask()  # 12040 for 12.4
    except nvml.NVMLError:
        return None
    finally:
        with contextlib.suppress(nvml.NVMLError):
            nvml.nvmlShutdown()
    return number // 1000, number % 1000 // 10
