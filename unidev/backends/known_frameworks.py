"""What unidev knows of a framework whose plugin is not installed; our plugins' specs have the same.

A process of another environment may hold a GPU's memory with such a framework, and a message may
recommend its plugin.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from unidev.contract.backend_spec import BackendSpec


class KnownFramework(NamedTuple):
    """What is needed to recognise a framework in a process, and to advise on its use of memory."""

    framework: str
    """Its top-level module."""
    title: str
    library: str | None = None
    sharing: Mapping[str, str] = MappingProxyType({})
    sharing_page: str | None = None
    """As in ``BackendSpec``, like the three fields before it."""

    @classmethod
    def of(cls, spec: BackendSpec) -> KnownFramework:
        """The framework that a plugin describes."""
        title, sharing = spec.title or spec.framework, dict(spec.sharing)
        return cls(spec.framework, title, spec.library, sharing, spec.sharing_page)


KNOWN = (
    KnownFramework("torch", "PyTorch", "libtorch"),
    KnownFramework(
        "tensorflow", "TensorFlow", "libtensorflow", {"TF_FORCE_GPU_ALLOW_GROWTH": "true"},
        "https://www.tensorflow.org/guide/gpu#limiting_gpu_memory_growth",
    ),
    KnownFramework("paddle", "PaddlePaddle", "libpaddle"),
    KnownFramework("mxnet", "MXNet", "libmxnet"),
    KnownFramework(
        "jax", "JAX", "xla_cuda", {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"},
        "https://docs.jax.dev/en/latest/gpu_memory_allocation.html",
    ),
)  # fmt: skip
"""The frameworks of the plugins in unidev's own repository."""
OUR_PLUGINS = tuple(sorted(each.framework for each in KNOWN))
"""The names of those plugins."""
OUR_LAUNCHERS = ("ray",)
"""The launchers that other plugins in unidev's own repository have, by the names of both."""


def install_command(plugin: str = KNOWN[0].framework) -> str:
    """The command that installs one of our plugins, in unidev's repository."""
    return f"pip install . './plugins/unidev-{plugin}[framework]'"


def with_described(described: Iterable[KnownFramework]) -> tuple[KnownFramework, ...]:
    """``KNOWN``, and the frameworks that installed plugins describe, which come before ours."""
    return tuple({each.framework: each for each in (*KNOWN, *described)}.values())
