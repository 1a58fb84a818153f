"""The CUDA version of NVIDIA's driver, without using CUDA."""

from __future__ import annotations

from unidev.hardware.nvml import ask_driver, cuda_version, import_nvml


def driver_cuda_version() -> tuple[int, int] | None:
    """The newest CUDA version that NVIDIA's driver supports, such as ``(12, 4)``.

    From NVML, which initialises no CUDA, so that a later ``fork`` still works; None if there is no
    driver, or if nvidia-ml-py is missing or too old to ask.
    """
    nvml = import_nvml()
    if not hasattr(nvml, "nvmlSystemGetCudaDriverVersion_v2"):
        return None
    return ask_driver(cuda_version, nvml)
