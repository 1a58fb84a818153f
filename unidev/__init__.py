"""unidev: which device, and copy or not, the same on every deep-learning framework.

    import unidev
    x = unidev.array([1.0, 2.0])
    y = unidev.copy_to(x, unidev.try_gpu())

Importing unidev imports no framework, nor NumPy. What only authors of backends need (``Backend``,
``BackendSpec``, ``hookimpl`` and the like) is imported when it is first named.
"""

from __future__ import annotations

from unidev.checks import check_same_device, device_of, same_device, shares_memory
from unidev.device import Device
from unidev.devices import (
    as_device,
    cpu,
    gpu,
    list_devices,
    memory,
    num_gpus,
    synchronize,
    try_all_gpus,
    try_gpu,
)
from unidev.errors import (
    AmbiguousBackendError,
    BackendError,
    BackendMismatchError,
    BackendNotFoundError,
    CircularContainerError,
    ContainerError,
    DeletedTensorError,
    DeviceError,
    DeviceMismatchError,
    DeviceNotFoundError,
    DeviceSpecError,
    FrameworkError,
    FrameworkNotInstalledError,
    InvalidDataError,
    NotATensorError,
    OutOfDeviceMemoryError,
    PluginError,
    ScopeError,
    SimulationError,
    TensorError,
    UnidevError,
    UnsupportedContainerError,
    UnsupportedDtypeError,
    UnsupportedOperation,
)
from unidev.generator import seed
from unidev.selection import active_backend, list_backends, set_backend, use_backend
from unidev.simulation import simulate
from unidev.tensors import (
    arange,
    array,
    empty,
    empty_like,
    full,
    ones,
    ones_like,
    rand,
    randn,
    to_numpy,
    zeros,
    zeros_like,
)
from unidev.transfer import as_in_device, copy_to
from unidev.trees import register_container

TYPE_CHECKING = False  # not typing's: importing that takes as long as all of unidev
if TYPE_CHECKING:
    from typing import Any

    from unidev.backend import (
        CONTRACT_VERSION,
        Backend,
        BackendSpec,
        Extent,
        Memory,
        Simulator,
        unsupported,
    )
    from unidev.hookspecs import hookimpl
    from unidev.probe import Probe

__version__ = "0.1.0"

_FOR_PLUGINS = {
    "CONTRACT_VERSION": "unidev.backend",
    "Backend": "unidev.backend",
    "BackendSpec": "unidev.backend",
    "Extent": "unidev.backend",
    "Memory": "unidev.backend",
    "Probe": "unidev.probe",
    "Simulator": "unidev.backend",
    "hookimpl": "unidev.hookspecs",
    "unsupported": "unidev.backend",
}

__all__ = [
    "CONTRACT_VERSION",
    "AmbiguousBackendError",
    "Backend",
    "BackendError",
    "BackendMismatchError",
    "BackendNotFoundError",
    "BackendSpec",
    "CircularContainerError",
    "ContainerError",
    "DeletedTensorError",
    "Device",
    "DeviceError",
    "DeviceMismatchError",
    "DeviceNotFoundError",
    "DeviceSpecError",
    "Extent",
    "FrameworkError",
    "FrameworkNotInstalledError",
    "InvalidDataError",
    "Memory",
    "NotATensorError",
    "OutOfDeviceMemoryError",
    "PluginError",
    "Probe",
    "ScopeError",
    "SimulationError",
    "Simulator",
    "TensorError",
    "UnidevError",
    "UnsupportedContainerError",
    "UnsupportedDtypeError",
    "UnsupportedOperation",
    "active_backend",
    "arange",
    "array",
    "as_device",
    "as_in_device",
    "check_same_device",
    "copy_to",
    "cpu",
    "device_of",
    "empty",
    "empty_like",
    "full",
    "gpu",
    "hookimpl",
    "list_backends",
    "list_devices",
    "memory",
    "num_gpus",
    "ones",
    "ones_like",
    "rand",
    "randn",
    "register_container",
    "same_device",
    "seed",
    "set_backend",
    "shares_memory",
    "simulate",
    "synchronize",
    "to_numpy",
    "try_all_gpus",
    "try_gpu",
    "unsupported",
    "use_backend",
    "zeros",
    "zeros_like",
]


def __getattr__(name: str) -> Any:
    if name in _FOR_PLUGINS:
        from importlib import import_module

        return getattr(import_module(_FOR_PLUGINS[name]), name)
    raise AttributeError(f"module 'unidev' has no attribute {name!r}")
