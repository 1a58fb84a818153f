"""The embedded plugin: registers NumPy the way any plugin registers its framework."""

from __future__ import annotations

from unidev.contract.backend_spec import BackendSpec, SimulatedGpus, Simulator
from unidev.contract.hookspecs import hookimpl
from unidev.contract.launcher import Forks


class NumpySimulator(Simulator):
    """Needs no setup: simulated arrays are our own class."""

    lacks: tuple[str, ...] = ()
    """The dtypes that this process's simulated GPUs refuse."""

    def start(self, count: int) -> None:
        """Do nothing: the backend's constructor receives the count."""

    def start_as(self, gpus: SimulatedGpus) -> None:
        """Keep the dtypes that they lack."""
        NumpySimulator.lacks = gpus.lacks

    def refusal(self, gpus: SimulatedGpus) -> str | None:
        """Refuse a memory and a model, except beside a name; not a lack of dtypes.

        A name, and what is requested with it, is for the framework that bears it. NumPy has no
        devices, hence no name for them; converting to NumPy must work beside that framework.
        """
        return None if gpus.name is not None or gpus.lacks else super().refusal(gpus)


@hookimpl
def unidev_register_backend() -> BackendSpec:
    """The embedded backend."""
    return BackendSpec(
        name="numpy",
        contract_version=3,
        framework="numpy",
        title="NumPy",
        short_names=("np",),
        install="pip install numpy",
        load="unidev.backends.numpy_backend.backend:NumpyBackend",
        simulator=NumpySimulator,
        forks=Forks(simulates=True),
        namespaces=("unidev",),  # also in a spec made of this one
    )
