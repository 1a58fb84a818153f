"""The installed PyTorch: its build, other builds, and the GPUs that it can use."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

import torch

from unidev.contract import Build, Installation, Wheel

if TYPE_CHECKING:
    from collections.abc import Mapping

PAGE = "https://pytorch.org/get-started/locally/"
_FOLDERS = {
    "Linux": (
        ("cuda", "13.0", "cu130"), ("cuda", "12.6", "cu126"), ("rocm", "7.2", "rocm7.2"),
        ("xpu", "", "xpu"),
    ),
    "Windows": (("cuda", "13.0", "cu130"), ("cuda", "12.6", "cu126"), ("xpu", "", "xpu")),
}  # fmt: skip
"""PyTorch's package index folders that have 2.13, newest first."""


class TorchInstallation(Installation):
    """From torch's own build information; does not initialise CUDA."""

    def build(self) -> Build:
        """The accelerator that torch was compiled for, which is its only one, and other wheels."""
        accelerator, version = _compiled_for()
        return Build(
            accelerator=accelerator,
            version=version,
            architectures=_architectures() if accelerator in ("cuda", "rocm") else (),
            wheels=tuple(_wheels()),
            page=PAGE,
        )

    def accelerator(self) -> str | None:
        """Without the architectures: after torch has listed those, a child cannot use CUDA."""
        return _compiled_for()[0]

    def settings(self) -> Mapping[str, str]:
        """TF32 in products and convolutions, and whether cuDNN tries its algorithms."""
        return {
            "TF32 in products": _precision(torch.backends.cuda, "matmul"),
            "TF32 in convolutions": _precision(torch.backends.cudnn, "conv"),
            "cuDNN benchmark": "on" if torch.backends.cudnn.benchmark else "off",
        }

    def usable_gpus(self) -> int:
        """The devices that the runtime itself counts; ``device_count`` asks NVIDIA's driver."""
        if self.backend.simulated_count or torch.accelerator.is_available():
            return self.backend.device_count("gpu")
        return 0


def _precision(backend: object, part: str) -> str:
    """By ``fp32_precision``: reading the older switches can raise where the newer ones are used."""
    precision = str(getattr(getattr(backend, part, None), "fp32_precision", "unknown"))
    return {"tf32": "on", "ieee": "off", "none": "off"}.get(precision, precision)


def _compiled_for() -> tuple[str | None, str | None]:
    for accelerator, name in (("cuda", "cuda"), ("rocm", "hip"), ("xpu", "xpu")):
        version = getattr(torch.version, name, None)
        if version:
            return accelerator, str(version).partition("-")[0]  # HIP versions end in a hash
    return ("mps", None) if torch.backends.mps.is_built() else (None, None)


def _architectures() -> tuple[str, ...]:
    # In earlier versions torch.cuda.get_arch_list() first checks whether there is a GPU.
    flags = torch._C._cuda_getArchFlags()
    return tuple((flags or "").split())


def _wheels() -> list[Wheel]:
    if platform.system() == "Darwin" and platform.machine() == "arm64":
        return [Wheel("mps", "", "pip install --force-reinstall torch")]
    # Forced, since pip would keep the installed build: it has the requested version.
    command = "pip install --force-reinstall torch --index-url https://download.pytorch.org/whl/"
    return [
        Wheel(accelerator, version, command + folder)
        for accelerator, version, folder in _FOLDERS.get(platform.system(), ())
    ]
