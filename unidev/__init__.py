"""unidev: which device, and copy or not, the same on every deep-learning framework.

    import unidev
    x = unidev.array([1.0, 2.0])
    y = unidev.copy_to(x, unidev.try_gpu())

Importing unidev imports no framework and no NumPy. Whatever is not needed to find a device and to
move a tensor there is itself imported on first use.
"""

from __future__ import annotations

from os import environ

from unidev.backends.selection import (
    active_backend,
    list_backends,
    set_backend,
    simulate,
    use_backend,
)
from unidev.device import Device
from unidev.errors import (
    AmbiguousBackendError,
    BackendError,
    BackendMismatchError,
    BackendNotFoundError,
    CheckpointError,
    CircularContainerError,
    CollectiveError,
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
    RunError,
    ScopeError,
    SimulationError,
    TensorError,
    TransferForbiddenError,
    UnidevError,
    UnsupportedContainerError,
    UnsupportedDtypeError,
    UnsupportedOperation,
    WorkerFailedError,
)
from unidev.system.version import __version__ as __version__
from unidev.tensors.devices import (
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
from unidev.tensors.transfer import as_in_device, copy_to

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from unidev import nn as nn
    from unidev.backends.races import assert_no_races
    from unidev.bench.fastest import fastest_device
    from unidev.contract import (
        CONTRACT_VERSION,
        Autograd,
        AutogradProbe,
        Backend,
        BackendSpec,
        Build,
        Collectives,
        Extent,
        Functions,
        Installation,
        Launcher,
        LauncherSpec,
        Layers,
        Memory,
        ModelProbe,
        Models,
        PeakCounter,
        PlannedTransfer,
        Probe,
        Simulator,
        Stored,
        Tracer,
        Wheel,
        hookimpl,
        part,
        unsupported,
    )
    from unidev.models.checkpoints.verbs import load_parameters, load_tensors, save_parameters
    from unidev.models.estimating import estimate_memory
    from unidev.models.gradients import no_grad, sgd, value_and_grad
    from unidev.models.placing import parameters, place
    from unidev.parallel.batches.prefetching import prefetch
    from unidev.parallel.devices.batches import gather, split_batch
    from unidev.parallel.devices.reducing import all_reduce
    from unidev.parallel.devices.replicating import broadcast, replicate
    from unidev.parallel.devices.spreading import spread
    from unidev.parallel.exchange.accuracy import evaluate_accuracy
    from unidev.parallel.exchange.data_parallel import DataParallel
    from unidev.parallel.exchange.group import Group, group
    from unidev.parallel.running.run import run
    from unidev.tensors.checks import check_same_device, device_of, same_device, shares_memory
    from unidev.tensors.converting import convert
    from unidev.tensors.creating import (
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
    from unidev.tensors.generator import seed
    from unidev.tensors.host_data import device_get, device_put, is_tensor, map_tensors
    from unidev.tensors.peak_memory import track_memory
    from unidev.tensors.pinning import pin
    from unidev.tensors.register_container import register_container
    from unidev.tracing.trace_transfers import trace_transfers
    from unidev.tracing.transfer_guard import transfer_guard

_LATER = {
    "backends.races": "assert_no_races",
    "bench.fastest": "fastest_device",
    "contract": (
        "Autograd AutogradProbe Backend BackendSpec Build CONTRACT_VERSION Collectives Extent "
        "Functions Installation Launcher LauncherSpec Layers Memory ModelProbe Models PeakCounter "
        "PlannedTransfer Probe Simulator Stored Tracer Wheel hookimpl part unsupported"
    ),
    "parallel.batches.prefetching": "prefetch",
    "tensors.peak_memory": "track_memory",
    "parallel.exchange.accuracy": "evaluate_accuracy",
    "parallel.exchange.data_parallel": "DataParallel",
    "parallel.exchange.group": "Group group",
    "parallel.running.run": "run",
    "models.checkpoints.verbs": "load_parameters load_tensors save_parameters",
    "models.estimating": "estimate_memory",
    "models.gradients": "no_grad sgd value_and_grad",
    "models.placing": "parameters place",
    "parallel.devices.batches": "gather split_batch",
    "parallel.devices.reducing": "all_reduce",
    "parallel.devices.replicating": "broadcast replicate",
    "parallel.devices.spreading": "spread",
    "tensors.checks": "check_same_device device_of same_device shares_memory",
    "tensors.converting": "convert",
    "tensors.creating": (
        "arange array empty empty_like full ones ones_like rand randn to_numpy zeros zeros_like"
    ),
    "tensors.generator": "seed",
    "tensors.host_data": "device_get device_put is_tensor map_tensors",
    "tensors.register_container": "register_container",
    "tensors.pinning": "pin",
    "tracing.trace_transfers": "trace_transfers",
    "tracing.transfer_guard": "transfer_guard",
}
"""Imported on first use: what is not needed to find a device and to move a tensor there."""
_HOMES = {name: module for module, names in _LATER.items() for name in names.split()}

__all__ = [
    "CONTRACT_VERSION", "AmbiguousBackendError", "Autograd", "AutogradProbe", "Backend",
    "BackendError", "BackendMismatchError", "BackendNotFoundError", "BackendSpec", "Build",
    "CheckpointError", "CircularContainerError", "CollectiveError", "Collectives", "ContainerError",
    "DataParallel", "DeletedTensorError", "Device", "DeviceError", "DeviceMismatchError",
    "DeviceNotFoundError", "DeviceSpecError", "Extent", "FrameworkError",
    "FrameworkNotInstalledError", "Functions", "Group", "Installation", "InvalidDataError",
    "Launcher", "LauncherSpec", "Layers", "Memory", "ModelError", "ModelProbe", "Models",
    "NotAModelError", "NotATensorError", "OutOfDeviceMemoryError", "PeakCounter", "PlannedTransfer",
    "PluginError", "Probe", "RunError", "ScopeError", "SimulationError", "Simulator", "Stored",
    "TensorError", "Tracer", "TransferForbiddenError", "UnidevError", "UnsupportedContainerError",
    "UnsupportedDtypeError", "UnsupportedOperation", "Wheel", "WorkerFailedError", "active_backend",
    "all_reduce", "arange", "array", "as_device", "as_in_device", "assert_no_races", "broadcast",
    "check_same_device", "convert", "copy_to", "cpu", "device_get", "device_of", "device_put",
    "empty", "empty_like", "estimate_memory", "evaluate_accuracy", "fastest_device", "full",
    "gather", "gpu", "group", "hookimpl", "is_tensor", "list_backends", "list_devices",
    "load_parameters", "load_tensors", "map_tensors", "memory", "no_grad", "num_gpus", "ones",
    "ones_like", "parameters", "part", "pin", "place", "prefetch", "rand", "randn",
    "register_container", "replicate", "run", "same_device", "save_parameters", "seed",
    "set_backend", "sgd", "shares_memory", "simulate", "split_batch", "spread", "synchronize",
    "to_numpy", "trace_transfers", "track_memory", "transfer_guard", "try_all_gpus", "try_gpu",
    "unsupported", "use_backend", "value_and_grad", "zeros", "zeros_like",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _HOMES:
        value = getattr(import_module(f"unidev.{_HOMES[name]}"), name)
        globals()[name] = value  # later lookups find it there and do not come here
        return value
    if name == "nn":
        return import_module("unidev.nn")
    raise AttributeError(f"module 'unidev' has no attribute {name!r}")


def load_ipython_extension(shell: Any) -> None:
    """IPython calls it for ``%load_ext unidev``, which adds ``%%trace_transfers``."""
    from importlib import import_module

    import_module("unidev.tracing.magics").add_magics(shell)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "nn"})


if environ.get("UNIDEV_SIMULATE_AS"):  # else nothing more than this lookup
    from importlib import import_module

    import_module("unidev.backends.import_hook").activate_name()
    del import_module
del environ
