"""The MXNet backend of unidev. Importing it imports no framework."""

from unidev.contract import BackendSpec, Simulator, hookimpl
from unidev_mxnet.importing import load_backend


class MxnetSimulator(Simulator):
    """There is nothing to set up, so it is never too late.

    MXNet accepts any ``mx.cpu(i)`` as a context with its own worker threads and memory:
    ``mx.cpu(i + 1)`` is the simulated ``gpu:i``. Only the backend, which receives the count,
    decides how many exist.
    """

    def start(self, count: int) -> None:
        """Do nothing: the backend does the work."""


@hookimpl
def unidev_register_backend() -> BackendSpec:
    """Apache MXNet, as ``mxnet``."""
    return BackendSpec(
        name="mxnet",
        contract_version=1,
        framework="mxnet",
        tested_until="1.9",
        install="pip install './plugins/unidev-mxnet[framework]'",
        load=load_backend,
        simulator=MxnetSimulator,
        group_setting="unidev_mxnet.group.setting:MxnetSetting",
    )
