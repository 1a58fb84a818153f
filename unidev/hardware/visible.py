"""Which GPUs the environment leaves visible, read the way CUDA, ROCm and Level Zero read it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from unidev.hardware.facts import Gpu

VARIABLES = {
    # HIP reads CUDA's variable too: https://rocm.docs.amd.com/en/latest/conceptual/gpu-isolation.html
    "cuda": ("CUDA_VISIBLE_DEVICES",),
    "rocm": ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"),
    "xpu": ("ZE_AFFINITY_MASK", "ONEAPI_DEVICE_SELECTOR"),
}
LINKS = {
    "cuda": "https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#cuda-environment-variables",
    "rocm": "https://rocm.docs.amd.com/en/latest/conceptual/gpu-isolation.html",
    "xpu": "https://oneapi-src.github.io/level-zero-spec/level-zero/latest/core/PROG.html#environment-variables",
}

EMPTY = "empty"
OUT_OF_RANGE = "out of range"
UNKNOWN = "unknown"
SUBSET = "subset"


@dataclass(frozen=True)
class Hiding:
    """A variable that hides GPUs."""

    variable: str
    value: str
    how: str
    """One of the constants above."""
    entry: str | None = None
    """The entry of the value at which reading stops."""
    shown: int = 0
    """The number of GPUs that remain visible."""


def hidden(
    environment: Mapping[str, str], accelerator: str, gpus: Sequence[Gpu] | None
) -> Hiding | None:
    """The first variable that hides a GPU of that accelerator, or None.

    ``gpus`` is None if the GPUs are unknown: then only a variable that hides all can be detected.
    """
    for variable in VARIABLES.get(accelerator, ()):
        if variable in environment:
            value = environment[variable]
            found = (
                _selector(variable, value)
                if variable == "ONEAPI_DEVICE_SELECTOR"
                else _listed(variable, value, gpus)
            )
            if found is not None:
                return found
    return None


def _listed(variable: str, value: str, gpus: Sequence[Gpu] | None) -> Hiding | None:
    """A list of indexes or UUIDs. Reading stops at the first invalid entry."""
    if not value.strip() and variable == "ZE_AFFINITY_MASK":
        return None  # Level Zero treats that as unset
    shown: list[int] = []
    for entry in (part.strip() for part in value.split(",")):
        problem = _problem(entry, gpus)
        if problem is not None:
            return Hiding(variable, value, EMPTY if not entry else problem, entry, len(shown))
        shown.append(_index(entry, gpus))
    is_divided = any(gpu.mig_uuids for gpu in gpus or ())  # then a process gets one part at most
    if gpus is not None and not is_divided and len(set(shown)) < len(gpus):
        return Hiding(variable, value, SUBSET, None, len(set(shown)))
    return None


def _problem(entry: str, gpus: Sequence[Gpu] | None) -> str | None:
    number = entry.partition(".")[0]  # Level Zero's 0.1 is a tile of device 0
    if number.lstrip("+-").isdigit():
        if int(number) < 0:
            return EMPTY  # -1 hides all
        return None if gpus is None or int(number) < len(gpus) else OUT_OF_RANGE
    if not entry:
        return EMPTY
    if gpus is None and entry.startswith(("GPU-", "MIG-")):
        return None
    return None if gpus and any(_is_named(gpu, entry) for gpu in gpus) else UNKNOWN


def _index(entry: str, gpus: Sequence[Gpu] | None) -> int:
    number = entry.partition(".")[0]
    if number.isdigit():
        return int(number)
    return next((gpu.index for gpu in gpus or () if _is_named(gpu, entry)), 0)


def _is_named(gpu: Gpu, entry: str) -> bool:
    """Whether ``entry`` is an abbreviated or full UUID of ``gpu``; CUDA compares case."""
    if entry.startswith("GPU-") and gpu.uuid is not None:
        return gpu.uuid.startswith(entry)
    return entry.startswith("MIG-") and any(each.startswith(entry) for each in gpu.mig_uuids)


def _selector(variable: str, value: str) -> Hiding | None:
    """What oneAPI's selector hides: ``backend:devices;…``, with ``!`` before exclusions.

    https://github.com/intel/llvm/blob/sycl/sycl/doc/EnvironmentVariables.md
    """
    taken = [part.strip() for part in value.split(";") if part.strip()]
    chosen = [part for part in taken if not part.startswith("!")]
    refused = [part for part in taken if part.startswith("!")]
    if any(part in ("!*:*", "!*:gpu", "!level_zero:*", "!level_zero:gpu") for part in refused):
        return Hiding(variable, value, EMPTY)
    if not chosen or any(_takes_gpu(part) for part in chosen):
        return None
    return Hiding(variable, value, EMPTY)


def _takes_gpu(part: str) -> bool:
    backend, _, devices = part.partition(":")
    return backend in ("*", "level_zero") and any(
        device.strip() != "cpu" and device.strip() != "fpga" for device in devices.split(",")
    )
