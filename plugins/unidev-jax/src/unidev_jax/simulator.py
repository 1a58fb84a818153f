"""Simulated GPUs: CPU devices of one process. ``gpu:i`` is JAX's ``cpu:(i + 1)``."""

from __future__ import annotations

from unidev.contract import SimulatedGpus, Simulator
from unidev.errors import SimulationError


class JaxSimulator(Simulator):
    """Gives JAX several CPU devices, each with arrays of its own."""

    def start(self, count: int) -> None:
        """Configure ``count + 1`` CPU devices, and hide real GPUs from this process.

        Starts no runtime. A matching configuration is accepted, even after the runtime has started.

        Raises:
            SimulationError: the runtime has started with another number of CPU devices.
        """
        from unidev_jax.framework import jax

        try:
            jax.config.update("jax_num_cpu_devices", count + 1)
        except RuntimeError as error:
            raise SimulationError(
                f"too late for {count} simulated GPUs: JAX's devices are fixed once it has made "
                f"its first array or listed its devices. With UNIDEV_SIMULATE={count} (or after "
                f"unidev.simulate({count})), call unidev.set_backend('jax') before any other use "
                "of JAX."
            ) from error
        jax.config.update("jax_platforms", "cpu")

    def refusal(self, gpus: SimulatedGpus) -> str | None:
        """Refuse a name: a platform of JAX's needs a compiler of its own."""
        if gpus.name is None:
            return super().refusal(gpus)
        return (
            "a GPU of JAX needs a compiler for its platform, which the CPU build does not have, so "
            f"no simulated GPU can be called {gpus.name!r} there. Unset UNIDEV_SIMULATE_AS: "
            f"UNIDEV_SIMULATE={gpus.count} alone simulates GPUs, "
            "which JAX calls cpu:1, cpu:2 and so on"
        )
