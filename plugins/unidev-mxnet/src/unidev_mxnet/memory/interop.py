"""MXNet's memory for other frameworks, and theirs in arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import mxnet as mx  # type: ignore[import-untyped]
from mxnet.ndarray.sparse import BaseSparseNDArray  # type: ignore[import-untyped]

from unidev.contract import Exported, Interop
from unidev.errors import UnsupportedOperation
from unidev_mxnet.native_calls import numpy_shapes, of_capsule

if TYPE_CHECKING:
    from collections.abc import Collection

_CPU, _CUDA = 1, 2
"""DLPack's numbers."""


class MxnetInterop(Interop):
    """Dense arrays; ``mx.np.ndarray`` on others' memory.

    MXNet orders what it does itself, and nothing with what others do: ``synchronize`` before they
    read what it writes.
    """

    def dtypes(self) -> Collection[str]:
        """Without bool, which MXNet gives one bit, as no other framework does."""
        return [name for name in self.backend.dtypes if name != "bool"]

    def export(self, x: Any) -> Exported:
        """Waits for what reads ``x``, too: whoever takes it may write."""
        device = self.backend.device_of(x)
        if isinstance(x, BaseSparseNDArray):
            raise UnsupportedOperation("sharing an array", "a sparse one is several arrays")
        number = (_CPU, 0) if device.kind == "cpu" else (_CUDA, device.index)
        return Exported(lambda: _capsule(x), number)

    def adopt(self, exported: Any, is_read_only: bool) -> Any:  # noqa: ARG002  MXNet's operators write to any array
        """As ``mx.nd.from_dlpack``, of contiguous memory with elements in it."""
        try:
            return of_capsule(exported.__dlpack__())
        except mx.MXNetError as error:
            lines = str(error).strip().splitlines()
            raise UnsupportedOperation("sharing an array", f"MXNet: {lines[-1]}") from error


def _capsule(x: Any) -> Any:
    with numpy_shapes():
        return x.to_dlpack_for_write()
