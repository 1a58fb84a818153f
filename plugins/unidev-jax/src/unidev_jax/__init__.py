"""unidev's JAX plugin. Importing this package does not import JAX."""

from unidev.contract import BackendSpec, hookimpl, unsupported


@hookimpl
def unidev_register_backend() -> BackendSpec:
    """Register the ``jax`` backend."""
    return BackendSpec(
        name="jax",
        contract_version=3,
        framework="jax",
        title="JAX",
        library="xla_cuda",  # of the processes that use a GPU
        short_names=("jnp", "lax"),
        # Without a version: pip chooses one that the Python at hand can run.
        install="pip install 'jax>=0.10.2'",
        load="unidev_jax.backend:JaxBackend",
        simulator="unidev_jax.simulator:JaxSimulator",
        group_setting="unidev_jax.group:JaxSetting",
        forks=unsupported("JAX is multithreaded, and warns itself that os.fork may deadlock"),
        # By default JAX takes three quarters of a GPU's memory at once.
        sharing={"XLA_PYTHON_CLIENT_PREALLOCATE": "false"},
        sharing_page="https://docs.jax.dev/en/latest/gpu_memory_allocation.html",
        namespaces=("jaxlib", "flax", "keras"),
        tested_until="0.10",
    )
