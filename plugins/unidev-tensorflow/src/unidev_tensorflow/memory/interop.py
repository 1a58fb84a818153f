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

_NUMBERS = frozenset(dtype.as_datatype_enum for dtype in DTYPES)

_HAS_DLPACK = hasattr(EAGER, "__dlpack__")
_to_capsule = tf.experimental.dlpack.to_dlpack
_from_capsule = tf.experimental.dlpack.from_dlpack

try:
    from tensorflow.python import pywrap_tfe  # type: ignore[import-untyped]
    from tensorflow.python.eager import context  # type: ignore[import-untyped]

    _from_capsule_of_context = pywrap_tfe.TFE_FromDlpackCapsule
except (ImportError, AttributeError):  # not public; the public way, which takes twice the time
    _from_capsule_of_context = None


class TensorFlowInterop(Interop):
    """Eager tensors, and the values of variables; they are never written to."""

    keeps_read_only = True

    def export(self, x: Any) -> Any:
        """Its DLPack waits; the value of a variable is as it is now, and stays so."""
        value = x if type(x) is EAGER else self._value(x)
        if value._datatype_enum() not in _NUMBERS:  # DLPack of strings ends the process
            raise UnsupportedOperation("sharing a tensor", f"DLPack has no {value.dtype.name}")
        device = value.device
        if value.backing_device != device:
            raise UnsupportedOperation(
                "sharing a tensor", f"TensorFlow keeps its {value.dtype.name} in the host's memory"
            )
        if "GPU" not in device:
            return value if _HAS_DLPACK else Exported(lambda: _to_capsule(value))
        kind, index = map(int, value.__dlpack_device__())
        return Exported(lambda: _to_capsule(value), (kind, index))

    def adopt(self, exported: Any, is_read_only: bool) -> Any:  # noqa: ARG002  none can be written to
        """``from_dlpack``, of contiguous memory that is aligned as TensorFlow's own is."""
        capsule = exported.__dlpack__()
        if capsule_address(capsule) % _ALIGNMENT:
            raise UnsupportedOperation(
                "sharing a tensor",
                f"its memory is not aligned to {_ALIGNMENT} bytes, as TensorFlow needs it",
            )
        try:
            if _from_capsule_of_context is None or not self.backend._by_name:  # type: ignore[attr-defined]
                return _from_capsule(capsule)  # which also starts the runtime
            return _from_capsule_of_context(capsule, context.context()._handle)
        except tf.errors.InvalidArgumentError as error:
            reason = f"TensorFlow: {error.message}"
            raise UnsupportedOperation("sharing a tensor", reason) from error

    def is_immutable(self, x: Any) -> bool:  # noqa: ARG002
        """Always."""
        return True

    def _value(self, x: Any) -> Any:
        if isinstance(x, COMPOSITES):
            raise UnsupportedOperation(
                "sharing a tensor", f"a {type(x).__name__} consists of several tensors"
            )
        return self.backend._value(x)  # type: ignore[attr-defined]
