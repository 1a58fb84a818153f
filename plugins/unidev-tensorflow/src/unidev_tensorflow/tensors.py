"""TensorFlow's kinds of tensor, and how to reach their parts."""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

import tensorflow as tf  # type: ignore[import-untyped]

from unidev.errors import UnsupportedOperation

COMPOSITES = (tf.RaggedTensor, tf.SparseTensor, tf.IndexedSlices, tf.experimental.ExtensionType)
"""Made of several plain tensors, which ``tf.nest`` reaches with ``expand_composites``."""

DISTRIBUTED = tf.distribute.DistributedValues
EAGER = tf.__internal__.EagerTensor

TENSORS = (tf.Tensor, tf.Variable, *COMPOSITES, DISTRIBUTED)


def keras_tensors() -> tuple[type, ...]:
    """Keras's symbolic tensors and variables, if Keras is imported and runs on TensorFlow."""
    keras = _keras()
    return () if keras is None else (keras.KerasTensor, _variables(keras.Variable))


def keras_models() -> tuple[type, ...]:
    """Keras's layers, which include its models, if Keras is imported and runs on TensorFlow."""
    keras = _keras()
    return () if keras is None else (keras.Layer,)


def keras_optimizers() -> tuple[type, ...]:
    """Keras's optimizers, if Keras is imported and runs on TensorFlow."""
    keras = _keras()
    return () if keras is None else (keras.optimizers.Optimizer,)


def is_keras_variable(x: object) -> bool:
    """Whether ``x`` is a variable of Keras's own, which holds one of TensorFlow's."""
    keras = _keras()
    return keras is not None and isinstance(x, _variables(keras.Variable))


def is_keras_layer(x: object) -> bool:
    """Whether ``x`` is one of Keras's layers or models."""
    keras = _keras()
    return keras is not None and isinstance(x, keras.Layer)


def is_chain(layer: Any) -> bool:
    """Whether ``x`` is Keras's kind of model that is defined by the order of its layers."""
    return hasattr(layer, "operations") or isinstance(layer, _keras().Sequential)


def common_build() -> Any:
    """The inherited ``build`` of a model whose class does not define one."""
    return _keras().Model.build


def portable_layers() -> tuple[Any, ...]:
    """The classes of ``unidev.nn``; empty until it has made a layer."""
    ours = sys.modules.get("unidev_tensorflow.nn.portable_layer")
    return () if ours is None else (ours.PortableLayer,)


def is_symbolic(x: object) -> bool:
    """Whether ``x`` is a symbolic value in a graph, TensorFlow's or Keras's."""
    keras = _keras()
    if keras is not None and isinstance(x, keras.KerasTensor):
        return True
    return isinstance(x, tf.Tensor) and not isinstance(x, EAGER)


def symbolic(x: Any) -> UnsupportedOperation:
    """The error for requesting the device or memory of such a value."""
    return UnsupportedOperation(
        f"the device of a {type(x).__name__}",
        "it is a symbolic value in a graph that is being traced, and has neither device nor memory "
        "yet; call this outside tf.function, or place operations there with `with tf.device(...)`",
        "https://www.tensorflow.org/guide/function",
    )


def parts(x: Any) -> list[Any]:
    """The plain tensors of a ragged, a sparse, or another composite tensor."""
    return list(tf.nest.flatten(x, expand_composites=True))


@cache
def _variables(public: Any) -> Any:
    """The base class of all of Keras's variables: ``keras.Variable``, or its base in old versions.

    In Keras 3.3 (TensorFlow 2.16), the public class derives from the one that layers create.
    """
    bases = (cls for cls in public.__mro__ if cls.__name__ == "KerasVariable")
    return next(bases, public)


def _keras() -> Any:
    # Looked up, not imported: TensorFlow may be used without it, and may import it late.
    keras: Any = sys.modules.get("keras")
    return keras if keras is None or keras is _whole[0] else _checked(keras)


def _checked(keras: Any) -> Any:
    whole = hasattr(keras, "Layer") and hasattr(keras, "Variable") and hasattr(keras, "backend")
    if not whole or keras.backend.backend() != "tensorflow":
        return None
    _whole[0] = keras
    return keras


_whole: list[Any] = [None]
"""Keras, once it is imported completely and runs on TensorFlow, which it then does for good."""
