"""The embedded plugin: registers NumPy the way any plugin registers its framework."""

from unidev.contract.backend_spec import BackendSpec, Simulator
from unidev.contract.hookspecs import hookimpl


class NumpySimulator(Simulator):
    """Needs no setup: simulated arrays are our own class."""

    def start(self, count: int) -> None:
        """Do nothing: the backend's constructor receives the count."""


@hookimpl
def unidev_register_backend() -> BackendSpec:
    """The embedded backend."""
    return BackendSpec(
        name="numpy",
        contract_version=1,
        framework="numpy",
        install="pip install numpy",
        load="unidev.numpy_backend.backend:NumpyBackend",
        simulator=NumpySimulator,
        namespaces=("unidev",),  # unidev.numpy_backend.simulated_array.SimulatedArray
    )
