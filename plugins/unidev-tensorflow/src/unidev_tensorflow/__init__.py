"""The TensorFlow backend of unidev. Importing it imports no framework."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unidev.contract import BackendSpec, hookimpl

if TYPE_CHECKING:
    from unidev.contract import Backend, Simulator


def _load() -> type[Backend]:
    from unidev_tensorflow.backend import TensorFlowBackend

    return TensorFlowBackend


def _simulator() -> Simulator:
    from unidev_tensorflow.simulator import TensorFlowSimulator

    return TensorFlowSimulator()


@hookimpl
def unidev_register_backend() -> BackendSpec:
    """TensorFlow, as ``tensorflow``."""
    return BackendSpec(
        name="tensorflow",
        contract_version=1,
        framework="tensorflow",
        install="pip install tensorflow",
        load=_load,
        simulator=_simulator,
        namespaces=("keras",),  # symbolic KerasTensors have no base of TensorFlow's
    )
