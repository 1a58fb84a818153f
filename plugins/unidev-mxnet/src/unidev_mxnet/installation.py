"""The installed MXNet: the accelerator that it was built for, and other builds."""

from __future__ import annotations

import platform
from importlib import metadata

import mxnet as mx  # type: ignore[import-untyped]

from unidev.contract import Build, Installation, Wheel

PAGE = "https://mxnet.apache.org/versions/1.9.1/get_started"
_CUDA = ("11.3", "11.2", "11.1", "11.0", "10.2", "10.1", "10.0", "9.2")
"""Versions of CUDA with a distribution, ``mxnet-cu112`` and the like."""


class MxnetInstallation(Installation):
    """From ``mx.runtime.Features``, and the name of the distribution."""

    def build(self) -> Build:
        """MXNet reports neither the version of CUDA nor the GPUs it has code for."""
        is_cuda = mx.runtime.Features().is_enabled("CUDA")
        wheel = Wheel("cuda", "11.2", "pip uninstall -y mxnet && pip install mxnet-cu112")
        return Build(
            accelerator="cuda" if is_cuda else None,
            version=_cuda_version() if is_cuda else None,
            wheels=(wheel,) if platform.system() == "Linux" else (),
            page=PAGE,
        )


def _cuda_version() -> str | None:
    for version in _CUDA:
        try:
            metadata.version(f"mxnet-cu{version.replace('.', '')}")
        except metadata.PackageNotFoundError:
            continue
        return version
    return None  # built from source
