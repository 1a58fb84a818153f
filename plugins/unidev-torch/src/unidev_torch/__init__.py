"""The PyTorch backend of unidev. Importing it imports no framework."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unidev.contract import BackendSpec, hookimpl

if TYPE_CHECKING:
    from unidev.contract import Backend, Simulator


def _load() -> type[Backend]:
    from unidev_torch.backend import TorchBackend

    return TorchBackend


def _simulator() -> Simulator:
    from unidev_torch.simulator import TorchSimulator

    return TorchSimulator()


@hookimpl
def unidev_register_backend() -> BackendSpec:
    """PyTorch, as ``torch``."""
    return BackendSpec(
        name="torch",
        contract_version=1,
        framework="torch",
        install="pip install torch",
        load=_load,
        simulator=_simulator,
    )
