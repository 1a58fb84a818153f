"""``unidev.nn`` on TensorFlow: its functions, in a scope on the device of ``x``.

The layers are in ``layers``, which imports Keras.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import tensorflow as tf  # type: ignore[import-untyped]

from unidev.contract import Functions, unsupported
from unidev_tensorflow.nn.images import (
    avg_pool2d_last,
    conv2d_last,
    dense,
    flatten,
    max_pool2d_last,
    to_first,
    to_last,
)
from unidev_tensorflow.scopes import scope_of

if TYPE_CHECKING:
    from unidev.contract import Layers, Pair, Tensor
    from unidev_tensorflow.backend import TensorFlowBackend


def make_layers(backend: TensorFlowBackend) -> Layers:
    """``TensorFlowLayers``, which imports Keras, or the reason why layers are unsupported."""
    try:
        import keras  # type: ignore[import-untyped]
    except ImportError as error:
        return unsupported(  # type: ignore[no-any-return]
            f"layers need Keras, which cannot be imported ({error}): pip install keras"
        )
    found = keras.backend.backend()
    if found != "tensorflow":
        return unsupported(  # type: ignore[no-any-return]
            f"layers need Keras on TensorFlow, and it runs on {found} in this process: set "
            "KERAS_BACKEND=tensorflow before Python starts",
            "https://keras.io/getting_started/#configuring-your-backend",
        )
    from unidev_tensorflow.nn.layers import TensorFlowLayers

    return TensorFlowLayers(backend)


class TensorFlowFunctions(Functions):
    """Convolutions and pools run channels last, the only layout that a CPU supports."""

    def linear(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """``tf.matmul``."""
        with scope_of(x):
            if x.shape.rank != 2:
                return dense(x, tf.transpose(weight), bias)
            y = tf.matmul(x, weight, transpose_b=True)
            return y if bias is None else tf.nn.bias_add(y, bias)

    def conv2d(
        self, x: Tensor, weight: Tensor, bias: Tensor | None, stride: Pair, padding: Pair
    ) -> Tensor:
        """``tf.nn.conv2d``."""
        with scope_of(x):
            kernel = tf.transpose(weight, (2, 3, 1, 0))
            return to_first(conv2d_last(to_last(x), kernel, bias, stride, padding))

    def avg_pool2d(self, x: Tensor, kernel_size: Pair, stride: Pair) -> Tensor:
        """``tf.nn.avg_pool2d``."""
        with scope_of(x):
            return to_first(avg_pool2d_last(to_last(x), kernel_size, stride))

    def max_pool2d(self, x: Tensor, kernel_size: Pair, stride: Pair) -> Tensor:
        """``tf.nn.max_pool2d``."""
        with scope_of(x):
            return to_first(max_pool2d_last(to_last(x), kernel_size, stride))

    def flatten(self, x: Tensor) -> Tensor:
        """``tf.reshape``."""
        with scope_of(x):
            return flatten(x)

    def relu(self, x: Tensor) -> Tensor:
        """``tf.nn.relu``."""
        with scope_of(x):
            return tf.nn.relu(x)

    def tanh(self, x: Tensor) -> Tensor:
        """``tf.tanh``."""
        with scope_of(x):
            return tf.tanh(x)

    def softmax_cross_entropy(self, logits: Tensor, labels: Tensor) -> Tensor:
        """``tf.nn.sparse_softmax_cross_entropy_with_logits``, which takes int32 and int64."""
        with scope_of(logits):
            if labels.dtype not in (tf.int32, tf.int64):
                labels = tf.cast(labels, tf.int64)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
            return tf.reduce_mean(losses)

    def mean_squared_error(self, predictions: Tensor, targets: Tensor) -> Tensor:
        """``tf.math.squared_difference``."""
        with scope_of(predictions):
            return tf.reduce_mean(tf.math.squared_difference(predictions, targets))
