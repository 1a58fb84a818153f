"""unidev: which device, and copy or not, the same on every deep-learning framework.

    import unidev
    x = unidev.array([1.0, 2.0])
    y = unidev.copy_to(x, unidev.try_gpu())

Importing unidev imports no framework, nor NumPy. What only authors of backends need (``Backend``,
``BackendSpec``, ``hookimpl`` and the like) is imported when it is first named.
"""

from __future__ import annotations

from unidev.checkpoints import load_parameters, save_parameters
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
    CheckpointError,
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
    ModelError,
    NotAModelError,
    NotATensorError,
    OutOfDeviceMemoryError,
    PluginError,
    ScopeError,
    SimulationError,
    TensorError,
    TransferForbiddenError,
    UnidevError,
    UnsupportedContainerError,
    UnsupportedDtypeError,
    UnsupportedOperation,
)
from unidev.fastest import fastest_device
from unidev.generator import seed
from unidev.gradients import no_grad, sgd, value_and_grad
from unidev.guarding import transfer_guard
from unidev.memory_tracking import track_memory
from unidev.placing import parameters, place
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
from unidev.tracing import trace_transfers
from unidev.transfer import as_in_device, copy_to
from unidev.trees import register_container

TYPE_CHECKING = False  # not typing's: importing that takes as long as all of unidev
if TYPE_CHECKING:
    from typing import Any

    from unidev import nn as nn
    from unidev.autograd import Autograd
    from unidev.backend import (
        CONTRACT_VERSION,
        Backend,
        BackendSpec,
        Extent,
        Memory,
        Simulator,
    )
    from unidev.hookspecs import hookimpl
    from unidev.installation import Build, Installation, Wheel
    from unidev.layers import Functions, Layers
    from unidev.models import Models, Stored
    from unidev.optional import part, unsupported
    from unidev.peak_counter import PeakCounter
    from unidev.probe import Probe
    from unidev.tracer import Movement, Tracer
    from unidev.training_probe import AutogradProbe, ModelProbe

__version__ = "0.1.0"

_FOR_PLUGINS = {
    "Autograd": "unidev.autograd",
    "AutogradProbe": "unidev.training_probe",
    "Backend": "unidev.backend",
    "BackendSpec": "unidev.backend",
    "Build": "unidev.installation",
    "CONTRACT_VERSION": "unidev.backend",
    "Extent": "unidev.backend",
    "Functions": "unidev.layers",
    "Installation": "unidev.installation",
    "Layers": "unidev.layers",
    "Memory": "unidev.backend",
    "ModelProbe": "unidev.training_probe",
    "Models": "unidev.models",
    "Movement": "unidev.tracer",
    "PeakCounter": "unidev.peak_counter",
    "Probe": "unidev.probe",
    "Simulator": "unidev.backend",
    "Stored": "unidev.models",
    "Tracer": "unidev.tracer",
    "Wheel": "unidev.installation",
    "hookimpl": "unidev.hookspecs",
    "part": "unidev.optional",
    "unsupported": "unidev.optional",
}

__all__ = [
    "CONTRACT_VERSION",
    "AmbiguousBackendError",
    "Autograd",
    "AutogradProbe",
    "Backend",
    "BackendError",
    "BackendMismatchError",
    "BackendNotFoundError",
    "BackendSpec",
    "Build",
    "CheckpointError",
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
    "Functions",
    "Installation",
    "InvalidDataError",
    "Layers",
    "Memory",
    "ModelError",
    "ModelProbe",
    "Models",
    "Movement",
    "NotAModelError",
    "NotATensorError",
    "OutOfDeviceMemoryError",
    "PeakCounter",
    "PluginError",
    "Probe",
    "ScopeError",
    "SimulationError",
    "Simulator",
    "Stored",
    "TensorError",
    "Tracer",
    "TransferForbiddenError",
    "UnidevError",
    "UnsupportedContainerError",
    "UnsupportedDtypeError",
    "UnsupportedOperation",
    "Wheel",
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
    "fastest_device",
    "full",
    "gpu",
    "hookimpl",
    "list_backends",
    "list_devices",
    "load_parameters",
    "memory",
    "no_grad",
    "num_gpus",
    "ones",
    "ones_like",
    "parameters",
    "part",
    "place",
    "rand",
    "randn",
    "register_container",
    "same_device",
    "save_parameters",
    "seed",
    "set_backend",
    "sgd",
    "shares_memory",
    "simulate",
    "synchronize",
    "to_numpy",
    "trace_transfers",
    "track_memory",
    "transfer_guard",
    "try_all_gpus",
    "try_gpu",
    "unsupported",
    "use_backend",
    "value_and_grad",
    "zeros",
    "zeros_like",
]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _FOR_PLUGINS:
        return getattr(import_module(_FOR_PLUGINS[name]), name)
    if name == "nn":
        return import_module("unidev.nn")
    raise AttributeError(f"module 'unidev' has no attribute {name!r}")
