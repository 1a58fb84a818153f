"""Whether Keras is available: layers need it, TensorFlow does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unidev.contract import unsupported

if TYPE_CHECKING:
    from unidev.contract import Layers
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
