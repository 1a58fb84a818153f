"""PaddlePaddle for unidev: registers the backend, and imports Paddle when it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unidev.contract import BackendSpec, hookimpl

if TYPE_CHECKING:
    from unidev.contract import Backend, Simulator

__version__ = "0.1.0"


def _load() -> type[Backend]:
    from unidev_paddle.backend import PaddleBackend

    return PaddleBackend


def _simulator() -> Simulator:
    from unidev_paddle.simulator import PaddleSimulator

    return PaddleSimulator()


@hookimpl
def unidev_register_backend() -> BackendSpec:
    """The Paddle backend."""
    return BackendSpec(
        name="paddle",
        contract_version=1,
        framework="paddle",
        install="pip install './plugins/unidev-paddle[framework]'",
        load=_load,
        simulator=_simulator,
    )
