"""Facts about the machine, its driver and a framework: ``python -m hardware_report.facts NAME``."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import sys
from importlib import metadata
from typing import TYPE_CHECKING, Any

import unidev
from unidev.contract.backend import Unsupported
from unidev.hardware.gpu_state import read_states
from unidev.hardware.machine import read_machine
from unidev.registry.versions import framework_version

if TYPE_CHECKING:
    from collections.abc import Mapping

    from unidev.contract.backend import Backend
    from unidev.hardware.facts import Gpu

_PREFIXES = (
    "CUDA_", "CUBLAS_", "CUDNN_", "NVIDIA_", "NCCL_", "HIP_", "HSA_", "ROCR_", "ZE_", "ONEAPI_",
    "TORCH_", "PYTORCH_", "TF_", "XLA_", "FLAGS_", "MXNET_", "OMP_", "MKL_", "UNIDEV_",
)  # fmt: skip
_DISTRIBUTIONS = (
    "numpy", "optree", "pluggy", "platformdirs", "psutil", "nvidia-ml-py", "safetensors", "xxhash",
    "filelock", "rich", "click", "jsonschema", "pytest", "hypothesis",
)  # fmt: skip


def facts(name: str) -> dict[str, Any]:
    """Facts about the machine, all GPUs and the framework; ``problems`` are cards that fail."""
    unidev.set_backend(name)
    backend = unidev.active_backend()
    gpus = [each for each in unidev.list_devices() if each.kind == "gpu"]
    read = read_machine(os.environ)
    driver = read.driver("cuda")
    states = {each.index: dataclasses.asdict(each) for each in read_states()}
    return {
        "problems": [
            f"GPU {each.index} does not answer its driver: {each.message}"
            for each in driver.unreadable
        ],
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": os.cpu_count() or 1,
        "framework": backend.spec.framework,
        "framework_version": framework_version(backend),
        "built_for": _built_for(backend),
        "driver": driver.version,
        "cuda_version": driver.cuda_version,
        "devices": [f"{each} ({each.name}, {each.native_name})" for each in gpus],
        "gpus": [_gpu(each, states.get(each.index, {})) for each in read.gpus],
        "environment": relevant(os.environ),
        "distributions": dict(_versions()),
        "settings": _settings(backend),
    }


def _gpu(gpu: Gpu, state: Mapping[str, Any]) -> dict[str, Any]:
    named = ("index", "name", "uuid")
    return {
        "index": gpu.index,
        "name": gpu.name,
        "uuid": gpu.uuid,
        "architecture": gpu.architecture,
        "total_bytes": gpu.total_bytes,
        "mig_uuids": list(gpu.mig_uuids),
        "state": {name: value for name, value in state.items() if name not in named},
    }


def _built_for(backend: Backend) -> str | None:
    installation = backend.installation
    if isinstance(installation, Unsupported):
        return None
    build = installation.build()
    return " ".join(filter(None, (build.accelerator or "the CPU", build.version)))


def _settings(backend: Backend) -> dict[str, str]:
    installation = backend.installation
    return {} if isinstance(installation, Unsupported) else dict(installation.settings())


def relevant(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that affect a framework on a GPU; paths are left out: they may name a user."""
    return {
        name: "(a path)" if os.sep in value else value
        for name, value in sorted(environment.items())
        if name.startswith(_PREFIXES)
    }


def _versions() -> list[tuple[str, str]]:
    found = []
    for name in _DISTRIBUTIONS:
        for each in metadata.distributions(name=name):
            found.append((name, each.version))
            break
    return found


if __name__ == "__main__":
    print(json.dumps(facts(sys.argv[1])))
