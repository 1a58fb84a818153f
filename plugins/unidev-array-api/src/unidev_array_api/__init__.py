"""Libraries of the array API standard as backends of unidev. Importing this imports none of them.

Each library is a backend of its own name, with an entry point of its own: an attribute here.
"""

from __future__ import annotations

from unidev.contract import BackendSpec, hookimpl, unsupported

_HAS_NONE = unsupported("the library has the devices of the machine alone", operation="simulating")


class Plugin:
    """Registers one library, as a module of a plugin would."""

    def __init__(self, spec: BackendSpec) -> None:
        self._spec = spec

    @hookimpl
    def unidev_register_backend(self) -> BackendSpec:
        """The library, as the backend of its name."""
        return self._spec


def _library(name: str, **more: object) -> Plugin:
    """A library that is selected by its name, or by an array of it, and never automatically."""
    fields: dict[str, object] = {
        "name": name,
        "contract_version": 3,
        "framework": name,
        "is_automatic": False,
        "is_traced": False,
        **more,
    }
    return Plugin(BackendSpec(**fields))  # type: ignore[arg-type]  # checked when it registers


array_api_strict = _library(
    "array_api_strict",
    title="array-api-strict",
    short_names=("xp",),
    tested_until="2.6",
    install="pip install './plugins/unidev-array-api[framework]'",
    load="unidev_array_api.libraries.strict:StrictBackend",
    simulator="unidev_array_api.simulator:StrictSimulator",
)
unidev_register_backend = array_api_strict.unidev_register_backend
"""The module itself is a plugin, too: of the library that needs no hardware."""

cupy = _library(
    "cupy",
    title="CuPy",
    short_names=("cp", "xp"),
    install="pip install cupy-cuda13x, or the package for your version of CUDA or ROCm",
    namespaces=("cupyx",),
    load="unidev_array_api.libraries.cupy:CupyBackend",
    simulator=_HAS_NONE,
)
dpnp = _library(
    "dpnp",
    title="dpnp",
    short_names=("xp",),
    tested_until="0.20",
    install="pip install dpnp",
    load="unidev_array_api.libraries.dpnp:DpnpBackend",
    simulator=_HAS_NONE,
)
mlx = _library(
    "mlx",
    title="MLX",
    install="pip install mlx",
    load=unsupported(
        "an array of MLX has no device, since its memory is shared by the CPU and the GPU: only an "
        "operation has one. Nothing can be on the wrong device",
        "https://ml-explore.github.io/mlx/build/html/usage/unified_memory.html",
    ),
)
ndonnx = _library(
    "ndonnx",
    title="ndonnx",
    install="pip install ndonnx",
    load=unsupported(
        "an array of ndonnx stands for a node of an ONNX graph: it has no values before the graph "
        "runs, and no memory that could be on a device",
        "https://github.com/Quantco/ndonnx",
    ),
)
