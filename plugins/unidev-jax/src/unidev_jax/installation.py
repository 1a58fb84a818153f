"""The installed JAX: its accelerators are plugins of its own, each a distribution."""

from __future__ import annotations

import platform
import re
from importlib.metadata import version
from typing import TYPE_CHECKING

from unidev.contract import Build, Conflict, Installation, Wheel
from unidev_jax.devices import gpu_plugins
from unidev_jax.framework import jax

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

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
        accelerator, toolkit = found[0]
        if accelerator == "rocm":  # ROCm 6.0's is called 60
            toolkit = toolkit if len(toolkit) == 1 else f"{toolkit[0]}.{toolkit[1:]}"
        return Build(
            accelerator=accelerator,
            version=toolkit,
            conflicts=tuple(_conflicts([name for kind, name in found if kind == "cuda"])),
            wheels=wheels,
            page=PAGE,
        )

    def settings(self) -> Mapping[str, str]:
        """How precisely products of float32 are computed: by default a GPU may use TF32."""
        return {"matmul precision": str(jax.config.jax_default_matmul_precision or "default")}

    def usable_gpus(self) -> int:
        """As JAX's runtime reports them; ``device_count`` asks the driver."""
        return sum(each.platform != "cpu" for each in jax.local_devices())


def _conflicts(toolkits: Sequence[str]) -> Iterator[Conflict]:
    """The conflicts of plugins for these versions of CUDA, newest first.

    JAX has one place for CUDA, and uses a plugin only with the jaxlib of its own version:
    https://github.com/jax-ml/jax/blob/main/jaxlib/plugin_support.py. ROCm's are not so strict.
    """
    plugins = [f"jax-cuda{each}-plugin" for each in toolkits]
    if len(plugins) > 1:
        older = " ".join(f"{name} {name.replace('-plugin', '-pjrt')}" for name in plugins[1:])
        yield Conflict(
            f"{' and '.join(plugins)} are installed, and JAX has room for one plugin for CUDA.",
            f"pip uninstall -y {older}",
        )
    jaxlib = version("jaxlib")
    for toolkit, name in zip(toolkits, plugins, strict=True):
        if _numbers(found := version(name)) != _numbers(jaxlib):
            yield Conflict(
                f"{name} {found} is beside jaxlib {jaxlib}: JAX does not use it.",
                f"pip install -U 'jax[cuda{toolkit}]=={jax.__version__}'",
            )


def _numbers(version: str) -> str:
    """``0.10.2`` of ``0.10.2+cuda``: what JAX compares."""
    found = re.match(r"[0-9]+(?:\.[0-9]+)*", version)
    return found[0] if found else version
