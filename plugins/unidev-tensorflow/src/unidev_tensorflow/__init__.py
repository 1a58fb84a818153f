"""The TensorFlow backend of unidev. Importing it imports no framework."""

from unidev.contract import BackendSpec, Forks, hookimpl


@hookimpl
def unidev_register_backend() -> BackendSpec:
    """TensorFlow, as ``tensorflow``."""
    return BackendSpec(
        name="tensorflow",
        contract_version=3,
        framework="tensorflow",
        title="TensorFlow",
        library="libtensorflow",
        short_names=("tf",),
        tested_until="2.21",
        install="pip install tensorflow",
        load="unidev_tensorflow.backend:TensorFlowBackend",
        simulator="unidev_tensorflow.simulator:TensorFlowSimulator",
        group_setting="unidev_tensorflow.group:TensorFlowSetting",
        forks=Forks(  # it hangs in forks once it has computed, and not before
            modules=(
                "unidev_tensorflow.autograd",
                "unidev_tensorflow.collectives",
                "unidev_tensorflow.group.engine",
                "unidev_tensorflow.models",
            ),
            reads=("TF_", "KERAS_"),
            simulates=True,
        ),
        sharing={"TF_FORCE_GPU_ALLOW_GROWTH": "true"},  # else the first process has it all
        sharing_page="https://www.tensorflow.org/guide/gpu#limiting_gpu_memory_growth",
        namespaces=("keras",),  # symbolic KerasTensors do not derive from TensorFlow's classes
    )
