"""The PyTorch backend of unidev. Importing it imports no framework."""

from unidev.contract import BackendSpec, Forks, hookimpl


@hookimpl
def unidev_register_backend() -> BackendSpec:
    """PyTorch, as ``torch``."""
    return BackendSpec(
        name="torch",
        contract_version=3,
        framework="torch",
        title="PyTorch",
        library="libtorch",
        tested_until="2.14",
        install="pip install torch",
        load="unidev_torch.backend:TorchBackend",
        simulator="unidev_torch_simulator:TorchSimulator",
        simulator_install="pip install ./plugins/unidev-torch-simulator  # in unidev's repository",
        namespaces=("unidev_torch_simulator",),  # its lines are not the user's
        group_setting="unidev_torch.group:TorchSetting",
        forks=Forks(
            modules=(
                "unidev_torch.autograd",
                "unidev_torch.collectives",
                "unidev_torch.group.engine",
                "unidev_torch.models",
            ),
            slow_modules=("torch._dynamo",),  # which the first optimizer imports
            reads=("TORCH", "PYTORCH_"),
            reseed="torch:seed",
            simulates=True,
        ),
    )
