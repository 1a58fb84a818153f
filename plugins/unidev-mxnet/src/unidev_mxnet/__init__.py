"""The MXNet backend of unidev. Importing it imports no framework."""

from __future__ import annotations

from unidev.contract import BackendSpec, Forks, SimulatedGpus, Simulator, hookimpl
from unidev_mxnet.importing import load_backend


class MxnetSimulator(Simulator):
    """There is nothing to set up, so it is never too late.

    MXNet accepts any ``mx.cpu(i)`` as a context with its own worker threads and memory:
    ``mx.cpu(i + 1)`` is the simulated ``gpu:i``. Only the backend, which receives the count,
    decides how many exist.
    """

    def start(self, count: int) -> None:
        """Do nothing: the backend does the work."""

    def refusal(self, gpus: SimulatedGpus) -> str | None:
        """Refuse a name: ``mx.gpu(0)`` is not in the CPU build."""
        if gpus.name is None:
            return super().refusal(gpus)
        return (
            "mx.gpu(0) is compiled out of MXNet's CPU build, so no simulated GPU can be called "
            f"{gpus.name!r} there. Unset UNIDEV_SIMULATE_AS: "
            f"UNIDEV_SIMULATE={gpus.count} alone simulates GPUs, "
            "which MXNet calls mx.cpu(1), mx.cpu(2) and so on"
        )


@hookimpl
def unidev_register_backend() -> BackendSpec:
    """Apache MXNet, as ``mxnet``."""
    return BackendSpec(
        name="mxnet",
        contract_version=3,
        framework="mxnet",
        title="MXNet",
        library="libmxnet",
        short_names=("mx", "np", "npx"),  # from mxnet import np, npx
        tested_until="1.9",
        install="pip install './plugins/unidev-mxnet[framework]'",
        load=load_backend,
        simulator=MxnetSimulator,
        group_setting="unidev_mxnet.group:MxnetSetting",
        forks=Forks(
            modules=(
                "unidev_mxnet.collectives",
                "unidev_mxnet.group.engine",
                "unidev_mxnet.models",
            ),
            reads=("MXNET_", "DMLC_"),
            reseed="unidev_mxnet.devices:seed_anew",
            simulates=True,
        ),
    )
