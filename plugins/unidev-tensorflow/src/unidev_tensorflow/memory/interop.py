"""TensorFlow's memory for other frameworks, and theirs in eager tensors."""

from __future__ import annotations

from typing import Any

import tensorflow as tf  # type: ignore[import-untyped]

from unidev.contract import Exported, Interop
from unidev.errors import UnsupportedOperation
from unidev_tensorflow.deep_copy.eager import DTYPES
from unidev_tensorflow.memory.extents import capsule_address
from unidev_tensorflow.tensors import COMPOSITES, EAGER

_ALIGNMENT = 64
"""Bytes. TensorFlow takes memory that is not aligned so, and its operations then end the process:
https://github.com/tensorflow/tensorflow/blob/v2.21.0/tensorflow/core/framework/tensor.cc#L899"""

_DTYPES = frozenset(DTYPES)


class TensorFlowInterop(Interop):
    """Eager tensors, and the values of variables; they are never written to."""

    keeps_read_only = True

    def export(self, x: Any) -> Any:
        """``to_dlpack``, which waits; the value of a variable is as it is now, and stays so."""
        if isinstance(x, COMPOSITES):
            raise UnsupportedOperation(
                "sharing a tensor", f"a {type(x).__name__} consists of several tensors"
            )
        value = x if type(x) is EAGER else self.backend._value(x)  # type: ignore[attr-defined]
        if value.dtype not in _DTYPES:  # DLPack of strings ends the process
            raise UnsupportedOperation("sharing a tensor", f"DLPack has no {value.dtype.name}")
        if value.backing_device != value.device:
            raise UnsupportedOperation(
                "sharing a tensor", f"TensorFlow keeps its {value.dtype.name} in the host's memory"
            )
        if "GPU" not in value.device:
            return Exported(lambda: tf.experimental.dlpack.to_dlpack(value))
        kind, index = map(int, value.__dlpack_device__())
        return Exported(lambda: tf.experimental.dlpack.to_dlpack(value), (kind, index))

    def adopt(self, exported: Any, is_read_only: bool) -> Any:  # noqa: ARG002  none can be written to
        """``from_dlpack``, of contiguous memory that is aligned as TensorFlow's own is."""
        capsule = exported.__dlpack__()
        if capsule_address(capsule) % _ALIGNMENT:
            raise UnsupportedOperation(
                "sharing a tensor",
                f"its memory is not aligned to {_ALIGNMENT} bytes, as TensorFlow needs it",
            )
        try:
            return tf.experimental.dlpack.from_dlpack(capsule)
        except tf.errors.InvalidArgumentError as error:
            reason = f"TensorFlow: {error.message}"
            raise UnsupportedOperation("sharing a tensor", reason) from error

    def is_immutable(self, x: Any) -> bool:  # noqa: ARG002
        """Always."""
        return True
