"""The installed JAX: its accelerators are plugins of its own, each a distribution."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

from unidev.contract import Build, Installation, Wheel
from unidev_jax.devices import gpu_plugins
from unidev_jax.framework import jax

if TYPE_CHECKING:
    from collections.abc import Mapping

PAGE = "https://docs.jax.dev/en/latest/installation.html"
_WHEELS = (
    Wheel("cuda", "13", "pip install -U 'jax[cuda13]'"),
    Wheel("cuda", "12", "pip install -U 'jax[cuda12]'"),
)


class JaxInstallation(Installation):
    """From the names of the installed distributions, such as ``jax-cuda13-plugin``."""

    def build(self) -> Build:
        """Only Linux has plugins for GPUs."""
        wheels = _WHEELS if platform.system() == "Linux" else ()
        found = sorted(gpu_plugins(), key=lambda each: int(each[1]), reverse=True)
        if not found:
            return Build(accelerator=None, wheels=wheels, page=PAGE)
        accelerator, version = found[0]
        if accelerator == "rocm":  # ROCm 6.0's is called 60
            version = version if len(version) == 1 else f"{version[0]}.{version[1:]}"
        return Build(accelerator=accelerator, version=version, wheels=wheels, page=PAGE)

    def settings(self) -> Mapping[str, str]:
        """How precisely products of float32 are computed: by default a GPU may use TF32."""
        return {"matmul precision": str(jax.config.jax_default_matmul_precision or "default")}

    def usable_gpus(self) -> int:
        """As JAX's runtime reports them; ``device_count`` asks the driver."""
        return sum(each.platform != "cpu" for each in jax.local_devices())
