"""Whether Keras can be had: layers are its, and TensorFlow does without."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unidev.contract import unsupported

if TYPE_CHECKING:
    from unidev.contract import Layers
    from unidev_tensorflow.backend import TensorFlowBackend


def make_layers(backend: TensorFlowBackend) -> Layers:
    """``TensorFlowLayers``; imports Keras. What says why there are none, where it is not there."""
    try:
        import keras  # type: ignore[import-untyped]
    except ImportError as error:
        return unsupported(  # type: ignore[no-any-return]
            f"layers are Keras's, and that does not import ({error}): pip install keras",
            operation="layers",
        )
    found = keras.backend.backend()
    if found != "tensorflow":
        return unsupported(  # type: ignore[no-any-return]
            f"layers are Keras's, and that runs on {found} in this process: set "
            "KERAS_BACKEND=tensorflow before Python starts",
            "https://keras.io/getting_started/#configuring-your-backend",
            operation="layers",
        )
    from unidev_tensorflow.nn.layers import TensorFlowLayers

    return TensorFlowLayers(backend)
