"""The PaddlePaddle backend of unidev. Importing it imports no framework."""

from unidev.contract import BackendSpec, hookimpl, unsupported


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
        forks=unsupported("Paddle reads its simulated devices at its import, and is not tested"),
    )
