"""The names that the simulated GPUs of this process bear in ``torch.distributed``."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Names:
    """A device's name, and those of what exchanges its tensors."""

    device: str
    """Torch's type of device."""
    key: str
    """The dispatch key of its operators."""
    backend: str
    """The word for ``init_process_group``."""
    kind: str
    """Torch's ``BackendType``."""

    @property
    def title(self) -> str:
        """The word in error messages, such as ``NCCL``."""
        return self.backend.upper()


CUDA = Names("cuda", "CUDA", "nccl", "NCCL")
SIM = Names("sim", "PrivateUse1", "simccl", "CUSTOM")

_current = CUDA
first = 0
"""The number of ``sim:0`` among the simulated GPUs of all workers."""


def current() -> Names:
    """The names of this process, which never change: torch has one name for its GPUs."""
    return _current


def choose(names: Names) -> None:
    """Set the names, before the first group."""
    global _current  # noqa: PLW0603  a process has one, as it has one torch
    _current = names


def index_of(device: torch.device) -> int:
    """The index of ``device``, or that of the current one."""
    if device.index is not None:
        return device.index
    index: int = torch.get_device_module(device).current_device()
    return index


def identity_of(device: torch.device) -> str:
    """The same for two processes that use one GPU: its host and UUID, or name, and its number."""
    index = index_of(device)
    if _current is SIM:
        return f"{socket.gethostname()} sim:{first + index} {first + index:x}"
    found: Any = torch.cuda.get_device_properties(index)
    return f"{socket.gethostname()} {found.uuid} {found.pci_bus_id:x}"
