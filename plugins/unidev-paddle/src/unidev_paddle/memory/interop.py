"""Paddle's memory for other frameworks, and theirs in tensors."""

from __future__ import annotations

from typing import Any

from unidev.contract import Exported, Interop
from unidev.errors import UnsupportedOperation
from unidev_paddle.framework import check_eager, not_dense, paddle

_to_dlpack = paddle.utils.dlpack.to_dlpack
_HAS_VERSIONS = hasattr(paddle.base.core.DenseTensor, "_to_dlpack_versioned")
_CUDA = 2
"""DLPack's number."""


class PaddleInterop(Interop):
    """Dense tensors."""

    def export(self, x: Any) -> Any:
        """Detached; Paddle's own ``__dlpack_device__`` has no index, which NumPy needs."""
        check_eager("convert")
        place = x.place if x.is_dense() else None
        if place is None:
            raise not_dense(x)
        if not x.stop_gradient:
            x = x.detach()
        if place.is_cpu_place():
            return _OfCpu(x)
        if place.is_gpu_place():
            return Exported(lambda: _to_dlpack(x), (_CUDA, place.gpu_device_id()))
        raise UnsupportedOperation("sharing a tensor", f"Paddle exports none at {place}")

    def adopt(self, exported: Any, is_read_only: bool) -> Any:  # noqa: ARG002  Paddle has no read-only tensors
        """``from_dlpack``, without a gradient."""
        check_eager("convert")
        return paddle.utils.dlpack.from_dlpack(exported.__dlpack__())


class _OfCpu:
    """A tensor on the CPU, also in the versioned form, which says that it may be written to."""

    __slots__ = ("_x",)

    def __init__(self, x: Any) -> None:
        self._x = x

    def __dlpack__(self, *, max_version: tuple[int, int] | None = None, **_options: object) -> Any:
        if max_version is None or max_version[0] < 1:
            return _to_dlpack(self._x)
        memory = self._x.get_tensor()
        return memory._to_dlpack_versioned() if _HAS_VERSIONS else _to_dlpack(self._x)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0  # the CPU
