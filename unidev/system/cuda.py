"""CUDA's driver: the version that it supports, and the GPUs where this process has a context."""

from __future__ import annotations

import contextlib
import ctypes
import sys
from typing import TYPE_CHECKING, Any

from unidev.errors import UnsupportedOperation
from unidev.system.nvml import MOST_GPUS, ask_driver, cuda_version, import_nvml, instances

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_OPERATION = "asking which GPUs have a context"
_LIBRARY = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
_LINK = "https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__PRIMARY__CTX.html"


def driver_cuda_version() -> tuple[int, int] | None:
    """The newest CUDA version that NVIDIA's driver supports, such as ``(12, 4)``.

    From NVML, which initialises no CUDA, so that a later ``fork`` still works; None if there is no
    driver, or if nvidia-ml-py is missing or too old to ask.
    """
    nvml = import_nvml()
    if not hasattr(nvml, "nvmlSystemGetCudaDriverVersion_v2"):
        return None
    return ask_driver(cuda_version, nvml)


def has_one_instance(environment: Mapping[str, str]) -> bool:
    """Whether an instance (MIG) is CUDA's only device here, however many cards there are.

    A process sees one instance at most, and then no card:
    https://docs.nvidia.com/datacenter/tesla/mig-user-guide/index.html#cuda-visible-devices
    If ``CUDA_VISIBLE_DEVICES`` is set, it may leave only cards that are not divided, so all must
    be. From NVML, as ``driver_cuda_version``; False where that does not answer.
    """
    nvml = import_nvml()
    if not hasattr(nvml, "nvmlDeviceGetMigMode"):
        return False
    divided = ask_driver(lambda nvml: [*_are_divided(nvml)], nvml) or [False]
    return all(divided) if "CUDA_VISIBLE_DEVICES" in environment else any(divided)


def _are_divided(nvml: Any) -> Iterator[bool]:
    for index in range(min(nvml.nvmlDeviceGetCount(), MOST_GPUS)):
        found = False
        with contextlib.suppress(nvml.NVMLError):  # of a lost card, which hides no other
            found = any(True for _ in instances(nvml, nvml.nvmlDeviceGetHandleByIndex(index)))
        yield found


def indices_with_context() -> list[int]:
    """CUDA's own numbers of the devices whose primary context is active in this process.

    Initialises the driver, which creates no context, but a process that is forked later cannot use
    CUDA. All of CUDA's runtime, and so each framework, uses primary contexts.

    Raises:
        UnsupportedOperation: there is no driver, or it fails.
    """
    driver, count = _loaded(), ctypes.c_int()
    _call(driver, "cuInit", 0)
    _call(driver, "cuDeviceGetCount", ctypes.byref(count))
    return [index for index in range(count.value) if _is_active(driver, index)]


def _loaded() -> Any:
    try:
        return ctypes.CDLL(_LIBRARY)
    except OSError as error:
        raise UnsupportedOperation(
            _OPERATION, f"only CUDA's driver reports that here, and there is none ({error})", _LINK
        ) from error


def _is_active(driver: Any, index: int) -> bool:
    device, flags, active = ctypes.c_int(), ctypes.c_uint(), ctypes.c_int()
    _call(driver, "cuDeviceGet", ctypes.byref(device), index)
    _call(driver, "cuDevicePrimaryCtxGetState", device, ctypes.byref(flags), ctypes.byref(active))
    return bool(active.value)


def _call(driver: Any, name: str, *arguments: Any) -> None:
    status = getattr(driver, name)(*arguments)
    if status:
        raise UnsupportedOperation(_OPERATION, f"CUDA's {name} failed with error {status}", _LINK)
