"""JAX's memory for other frameworks, and theirs in JAX's arrays, by DLPack."""

from __future__ import annotations

from typing import Any

from unidev.contract import Interop
from unidev.errors import UnsupportedOperation
from unidev_jax.arrays import check_alive, value_of
from unidev_jax.copying import enable_x64
from unidev_jax.framework import jax


class JaxInterop(Interop):
    """Arrays on one device; they are never written to."""

    keeps_read_only = True

    def export(self, x: Any) -> Any:
        """The array itself, once it is there: DLPack waits on GPUs alone."""
        value = value_of(x)
        check_alive(value)
        self.backend.device_of(value)
        return value.block_until_ready()

    def adopt(self, exported: Any, is_read_only: bool) -> Any:  # noqa: ARG002  none can be written to
        """``from_dlpack`` with 64 bits enabled: without them, JAX narrows int64 to int32."""
        try:
            with enable_x64(True):
                return jax.dlpack.from_dlpack(exported, copy=False)
        except (ValueError, RuntimeError) as error:  # not aligned to 64 bytes, or with gaps
            raise UnsupportedOperation("sharing a tensor", f"JAX: {error}") from error

    def is_immutable(self, x: Any) -> bool:  # noqa: ARG002
        """Always."""
        return True
