"""Gradients for the conformance suite, by TensorFlow's own calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf  # type: ignore[import-untyped]

from unidev.contract import AutogradProbe, unsupported

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from unidev.contract import Array, Device


class TensorFlowAutogradProbe(AutogradProbe):
    """By tapes. The function runs in no scope: where it computes is its own affair."""

    is_differentiable = unsupported(
        "TensorFlow's tensors have no flag: what a tape records is known to the tape alone",
        "https://www.tensorflow.org/guide/autodiff",
    )

    def gradients(
        self, function: Callable[..., Any], arrays: Sequence[Array], devices: Sequence[Device]
    ) -> Sequence[Any | None]:
        """What ``tape.gradient`` gives, asked in a scope of each source.

        As everywhere in TensorFlow, the way back is computed in the scope in which it is asked for.
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
        """``tf.stop_gradient``, on its own device."""
        with tf.device(x.device):
            return tf.stop_gradient(x)

    def second_order(self, function: Callable[[Any], Any], array: Array, device: Device) -> Any:
        """A tape in a tape."""
        x = self.backend.probe.make(array, device)
        with tf.device(device.native), tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                total = tf.reduce_sum(function(x))
            first = tf.reduce_sum(inner.gradient(total, x))
        with tf.device(device.native):
            return outer.gradient(first, x)
