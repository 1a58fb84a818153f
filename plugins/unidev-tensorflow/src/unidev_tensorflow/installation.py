"""The installed TensorFlow: the accelerator that it was built for, and whether it finds cuDNN."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import tensorflow as tf  # type: ignore[import-untyped]

from unidev.contract import Build, Installation, Wheel

if TYPE_CHECKING:
    from collections.abc import Mapping

PAGE = "https://www.tensorflow.org/install/pip"
_WHEEL = Wheel(
    "cuda",
    "12",
    # tensorflow-cpu and tensorflow overwrite each other's files.
    "pip uninstall -y tensorflow tensorflow-cpu && pip install 'tensorflow[and-cuda]'",
)
_LOADER_CACHE = Path("/etc/ld.so.cache")
_FOLDERS = ("/usr/lib", "/usr/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/local/cuda/lib64")


class TensorFlowInstallation(Installation):
    """From ``tf.sysconfig.get_build_info``."""

    def build(self) -> Build:
        """Only Linux has builds for GPUs: Windows builds ended with 2.10."""
        info = dict(tf.sysconfig.get_build_info())
        is_linux = platform.system() == "Linux"
        wheels = (_WHEEL,) if is_linux else ()
        if info.get("is_rocm_build"):
            version = info.get("rocm_version")
            return Build(accelerator="rocm", version=version, wheels=wheels, page=PAGE)
        if not info.get("is_cuda_build"):
            return Build(accelerator=None, wheels=wheels, page=PAGE)
        cudnn = info.get("cudnn_version")
        library = f"libcudnn.so.{cudnn}"
        return Build(
            accelerator="cuda",
            version=info.get("cuda_version"),
            architectures=tuple(info.get("cuda_compute_capabilities", ())),
            cudnn=cudnn,
            missing=(library,) if is_linux and cudnn and not is_found(library) else (),
            wheels=wheels,
            page=PAGE,
        )

    def settings(self) -> Mapping[str, str]:
        """TF32, which TensorFlow uses unless it is told not to."""
        is_on = tf.config.experimental.tensor_float_32_execution_enabled()
        return {"TF32": "on" if is_on else "off"}


def is_found(library: str) -> bool:
    """Whether the loader would find a library for TensorFlow; loads nothing.

    ``tensorflow[and-cuda]`` installs it as ``nvidia/cudnn``, where TensorFlow looks first.
    """
    packages = [Path(entry) / "nvidia/cudnn/lib" for entry in sys.path if entry]
    named = [Path(entry) for entry in os.environ.get("LD_LIBRARY_PATH", "").split(":") if entry]
    folders = [*packages, *named, *map(Path, _FOLDERS)]
    if any((folder / library).exists() for folder in folders):
        return True
    return _LOADER_CACHE.exists() and library.encode() + b"\0" in _LOADER_CACHE.read_bytes()
