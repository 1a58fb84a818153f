"""The embedded plugin: registers NumPy as any plugin registers its framework."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unidev.contract.backend import BackendSpec, Simulator
from unidev.contract.hookspecs import hookimpl

if TYPE_CHECKING:
    from unidev.contract.backend import Backend


class NumpySimulator(Simulator):
    """Nothing to arrange: simulated arrays are a class of our own."""

    def start(self, count: int) -> None:
        """Leave it to the backend, which is told the count."""


def _load() -> type[Backend]:
    from unidev.numpy_backend.backend import NumpyBackend

    return NumpyBackend


@hookimpl
def unidev_register_backend() -> BackendSpec:
    """The embedded backend."""
    return BackendSpec(
        name="numpy",
        contract_version=1,
        framework="numpy",
        install="pip install numpy",
        load=_load,
        simulator=NumpySimulator,
        namespaces=("unidev",),  # unidev.numpy_backend.simulated_array.SimulatedArray
    )
