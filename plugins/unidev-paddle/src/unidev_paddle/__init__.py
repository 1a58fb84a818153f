"""The PaddlePaddle backend of unidev. Importing it imports no framework."""

from unidev.contract import BackendSpec, Forks, hookimpl


@hookimpl
def unidev_register_backend() -> BackendSpec:
    """PaddlePaddle, as ``paddle``."""
    return BackendSpec(
        name="paddle",
        contract_version=3,
        framework="paddle",
        title="PaddlePaddle",
        library="libpaddle",
        tested_until="3.3",
        install="pip install './plugins/unidev-paddle[framework]'",
        load="unidev_paddle.backend:PaddleBackend",
        simulator="unidev_paddle.simulator:PaddleSimulator",
        group_setting="unidev_paddle.group:PaddleSetting",
        forks=Forks(
            modules=(
                "unidev_paddle.collectives",
                "unidev_paddle.group.engine",
                "unidev_paddle.models",
            ),
            reads=("FLAGS_", "GLOG_"),
            reseed="unidev_paddle.framework:seed_anew",
        ),
    )
