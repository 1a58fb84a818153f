"""The contract of a plugin: all that it may import besides ``unidev``, ``unidev.errors``.

Each name is imported on first use, so ``import unidev`` does not pay for it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from unidev.contract.autograd import Autograd, nested_backward, nodes_from, reaches
    from unidev.contract.backend import Backend, Children, CopyStream
    from unidev.contract.backend_spec import (
        CONTRACT_VERSION,
        BackendSpec,
        Race,
        SimulatedGpus,
        Simulator,
    )
    from unidev.contract.collectives import Collectives, OperatorCollectives
    from unidev.contract.data_loaders import (
        EpochBatches,
        Loader,
        Rows,
        with_own_order,
        without_rows,
    )
    from unidev.contract.estimating import Estimator, StepMemory
    from unidev.contract.function_layers import FunctionLayers, Layer
    from unidev.contract.group_engine import Arrangement, GroupEngine, GroupSetting, Rendezvous
    from unidev.contract.hardware_probe import HardwareProbe, RecordedCopy, Training
    from unidev.contract.hookspecs import hookimpl
    from unidev.contract.installation import Build, Conflict, Installation, Wheel
    from unidev.contract.interop import Exported, HostInterop, Interop
    from unidev.contract.launcher import Forks, Launcher, LauncherSpec
    from unidev.contract.layer_models import LayerModels, ModelVariable
    from unidev.contract.layers import (
        Array,
        CombineMoments,
        Functions,
        Layers,
        Model,
        Moments,
        Pair,
        Tensor,
    )
    from unidev.contract.listed_models import ListedModels
    from unidev.contract.memory import Extent, Memory, PeakCounter
    from unidev.contract.models import (
        AnyModels,
        Models,
        Stored,
        TreeModels,
        check_state,
        found_in,
        is_number,
    )
    from unidev.contract.optional import Unsupported, part, unsupported
    from unidev.contract.probe import Contained, Probe, TransferExample
    from unidev.contract.tracer import Patches, Recording, Tracer, outermost_name
    from unidev.contract.training_probe import AutogradProbe, ModelProbe, SampleProbe
    from unidev.device import Device
    from unidev.system.arguments import seconds_in
    from unidev.system.build_cache import build_once, checked_file
    from unidev.system.cuda import driver_cuda_version, has_one_instance
    from unidev.system.forking import fork_safe_lock
    from unidev.system.gpu_memory import card_bytes
    from unidev.system.host.events import Ended, Event, HelperProcess, Job, Output, Progress
    from unidev.system.host.folders import own_folder
    from unidev.system.host.frames import Frame
    from unidev.system.host.host import WorkerHost
    from unidev.system.host.ports import free_ports
    from unidev.system.machine import visible_gpus
    from unidev.system.wording import kind_of
    from unidev.values import PlannedTransfer

    __all__ = [
        "CONTRACT_VERSION", "AnyModels", "Arrangement", "Array", "Autograd", "AutogradProbe",
        "Backend", "BackendSpec", "Build", "Children", "Collectives", "CombineMoments", "Conflict",
        "Contained", "CopyStream", "Device", "Ended", "EpochBatches", "Estimator", "Event",
        "Exported", "Extent", "Forks", "Frame", "FunctionLayers", "Functions", "GroupEngine",
        "GroupSetting", "HardwareProbe", "HelperProcess", "HostInterop", "Installation", "Interop",
        "Job", "Launcher", "LauncherSpec", "Layer", "LayerModels", "Layers", "ListedModels",
        "Loader", "Memory", "Model", "ModelProbe", "ModelVariable", "Models", "Moments",
        "OperatorCollectives", "Output", "Pair", "Patches", "PeakCounter", "PlannedTransfer",
        "Probe", "Progress", "Race", "RecordedCopy", "Recording", "Rendezvous", "Rows",
        "SampleProbe", "SimulatedGpus", "Simulator", "StepMemory", "Stored", "Tensor", "Tracer",
        "Training", "TransferExample", "TreeModels", "Unsupported", "Wheel", "WorkerHost",
        "build_once", "card_bytes", "check_state", "checked_file", "driver_cuda_version",
        "fork_safe_lock", "found_in", "free_ports", "has_one_instance", "hookimpl", "is_number",
        "kind_of", "nested_backward", "nodes_from", "outermost_name", "own_folder", "part",
        "reaches", "seconds_in", "unsupported", "visible_gpus", "with_own_order", "without_rows",
    ]  # fmt: skip

_NAMES = {
    "device": "Device",
    "values": "PlannedTransfer",
    "contract.autograd": "Autograd nested_backward nodes_from reaches",
    "contract.backend": "Backend CopyStream",
    "contract.backend_spec": "BackendSpec CONTRACT_VERSION Race SimulatedGpus Simulator",
    "contract.collectives": "Collectives OperatorCollectives",
    "contract.estimating": "Estimator StepMemory",
    "contract.function_layers": "FunctionLayers Layer",
    "contract.group_engine": "Arrangement GroupEngine GroupSetting Rendezvous",
    "contract.hardware_probe": "HardwareProbe RecordedCopy Training",
    "contract.hookspecs": "hookimpl",
    "contract.installation": "Build Conflict Installation Wheel",
    "contract.interop": "Exported HostInterop Interop",
    "contract.launcher": "Forks Launcher LauncherSpec",
    "contract.layer_models": "LayerModels ModelVariable",
    "contract.layers": "Functions Layers Moments",
    "contract.data_loaders": "EpochBatches Loader Rows with_own_order without_rows",
    "contract.listed_models": "ListedModels",
    "contract.memory": "Extent Memory PeakCounter",
    "contract.models": "AnyModels Models Stored TreeModels check_state found_in is_number",
    "contract.optional": "Unsupported part unsupported",
    "contract.probe": "Probe TransferExample",
    "contract.tracer": "Patches Recording Tracer outermost_name",
    "contract.training_probe": "AutogradProbe ModelProbe SampleProbe",
    "system.gpu_memory": "card_bytes",
    "system.cuda": "driver_cuda_version has_one_instance",
    "system.machine": "visible_gpus",
    "system.arguments": "seconds_in",
    "system.build_cache": "build_once checked_file",
    "system.forking": "fork_safe_lock",
    "system.wording": "kind_of",
    "system.host.events": "Ended Event HelperProcess Job Output Progress",
    "system.host.folders": "own_folder",
    "system.host.frames": "Frame",
    "system.host.host": "WorkerHost",
    "system.host.ports": "free_ports",
}
HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}
"""The module of each name, below ``unidev``."""


def __getattr__(name: str) -> Any:
    from importlib import import_module

    home = HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"unidev.{home}"), name)
    return value
