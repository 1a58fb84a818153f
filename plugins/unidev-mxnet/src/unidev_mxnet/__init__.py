"""Apache MXNet for unidev. Importing this registers the backend, and imports no framework."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unidev import BackendSpec, hookimpl

if TYPE_CHECKING:
    from unidev import Backend, Simulator


def _load() -> type[Backend]:
    from unidev_mxnet.importing import import_mxnet

    import_mxnet()  # before backend.py, which imports MXNet as anybody does
    from unidev_mxnet.backend import MxnetBackend

    return MxnetBackend


def _simulator() -> Simulator:
    from unidev_mxnet.simulator import MxnetSimulator

    return MxnetSimulator()


@hookimpl
def unidev_register_backend() -> BackendSpec:
    """The MXNet backend."""
    return BackendSpec(
        name="mxnet",
        contract_version=1,
        framework="mxnet",
        install="pip install './plugins/unidev-mxnet[framework]'",
        load=_load,
        simulator=_simulator,
    )
