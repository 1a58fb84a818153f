"""Gradients for the conformance suite, using TensorFlow's own calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf  # type: ignore[import-untyped]

from unidev.contract import AutogradProbe, unsupported

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from unidev.contract import Array, Device


class TensorFlowAutogradProbe(AutogradProbe):
    """Uses tapes. The function runs outside any scope: it decides itself where to compute."""

    is_differentiable = unsupported(
        "TensorFlow's tensors have no such flag: only the tape knows what it records",
        "https://www.tensorflow.org/guide/autodiff",
    )

    def gradients(
        self, function: Callable[..., Any], arrays: Sequence[Array], devices: Sequence[Device]
    ) -> Sequence[Any | None]:
        """``tape.gradient``, called in a scope of each source.

        TensorFlow computes gradients in the scope in which they are requested.
        """
        make = self.backend.probe.make
        xs = [make(array, device) for array, device in zip(arrays, devices, strict=True)]
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(xs)
            total = tf.reduce_sum(function(*xs))
        found = []
        for x in xs:
            with tf.device(x.device):
                found.append(tape.gradient(total, x))
        return found

    def detach(self, x: Any) -> Any:
        """``tf.stop_gradient``, on the tensor's own device."""
        with tf.device(x.device):
            return tf.stop_gradient(x)

    def second_order(self, function: Callable[[Any], Any], array: Array, device: Device) -> Any:
        """A tape inside a tape."""
        x = self.backend.probe.make(array, device)
        with tf.device(device.native), tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                total = tf.reduce_sum(function(x))
            first = tf.reduce_sum(inner.gradient(total, x))
        with tf.device(device.native):
            return outer.gradient(first, x)
