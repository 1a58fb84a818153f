"""The embedded plugin: registers NumPy the way any plugin registers its framework."""

from unidev.contract.backend_spec import BackendSpec
from unidev.contract.hookspecs import hookimpl


@hookimpl
def unidev_register_backend() -> BackendSpec:
    """The embedded backend."""
    return BackendSpec(
        name="numpy",
        contract_version=1,
        framework="numpy",
        install="pip install numpy",
        load="unidev.numpy_backend.backend:NumpyBackend",
        simulator="unidev.numpy_backend.simulator:NumpySimulator",
        namespaces=("unidev",),  # unidev.numpy_backend.simulated_array.SimulatedArray
    )
