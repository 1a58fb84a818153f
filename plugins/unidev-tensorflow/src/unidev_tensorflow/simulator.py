"""Simulated GPUs: logical CPU devices. ``gpu:i`` is TensorFlow's ``CPU:(i + 1)``."""

from __future__ import annotations

from typing import Any

from unidev.contract import SimulatedGpus, Simulator
from unidev.errors import SimulationError


class TensorFlowSimulator(Simulator):
    """Splits TensorFlow's one CPU into several, each with an allocator of its own."""

    def start(self, count: int) -> None:
        """Configure ``count + 1`` logical CPU devices, and hide real GPUs from this process.

        Real GPUs are hidden because the simulated ones stand in for them: TensorFlow would run
        anything outside a scope on a real one. Starts no runtime. A matching configuration is
        accepted, even after the runtime has started.

        Raises:
            SimulationError: the runtime has started, or the program has split the CPU differently.
        """
        import tensorflow as tf  # type: ignore[import-untyped]

        physical = tf.config.list_physical_devices("CPU")[0]
        found = tf.config.get_logical_device_configuration(physical)
        if found is not None and len(found) != count + 1:
            raise SimulationError(
                f"{count} simulated GPUs need {count + 1} logical CPU devices of TensorFlow, and "
                f"this program has configured {len(found)}: remove its "
                "tf.config.set_logical_device_configuration, or configure as many."
            )
        try:
            if tf.config.get_visible_devices("GPU"):
                tf.config.set_visible_devices([], "GPU")
            if found is None:
                _split(tf, physical, count + 1)
        except RuntimeError as error:
            raise SimulationError(
                f"too late for {count} simulated GPUs: TensorFlow's devices are fixed once it has "
                f"made its first tensor. With UNIDEV_SIMULATE={count} (or after unidev.simulate("
                f"{count})), call unidev.set_backend('tensorflow') before any other use of "
                "TensorFlow."
            ) from error

    def refusal(self, gpus: SimulatedGpus) -> str | None:
        """Refuse a name: no kernels are registered for ``GPU:0`` in the CPU build."""
        if gpus.name is None:
            return super().refusal(gpus)
        return (
            "a TensorFlow GPU needs kernels of its own, which the CPU build does not have, so no "
            f"simulated GPU can be called {gpus.name!r} there. Unset UNIDEV_SIMULATE_AS: "
            f"UNIDEV_SIMULATE={gpus.count} alone simulates GPUs, "
            "which TensorFlow calls CPU:1, CPU:2 and so on"
        )


def _split(tf: Any, physical: Any, count: int) -> None:
    logical = tf.config.LogicalDeviceConfiguration
    tf.config.set_logical_device_configuration(physical, [logical() for _ in range(count)])
