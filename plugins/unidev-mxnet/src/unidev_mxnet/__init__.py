"""The MXNet backend of unidev. Importing it imports no framework."""

from unidev.contract import BackendSpec, hookimpl
from unidev_mxnet.importing import load_backend


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
        simulator="unidev_mxnet.simulator:MxnetSimulator",
        group_setting="unidev_mxnet.group.setting:MxnetSetting",
    )
