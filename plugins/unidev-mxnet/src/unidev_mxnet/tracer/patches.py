"""The functions of MXNet's C library that are replaced while a scope is open in any thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mxnet.base import _LIB  # type: ignore[import-untyped]

from unidev.contract import Patches
from unidev_mxnet.tracer.operations import Operations
from unidev_mxnet.tracer.readings import Readings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from unidev.contract import Backend
    from unidev_mxnet.tracer.recording import MxnetRecording


class MxnetPatches(Patches):
    """Each stand-in takes what the C function takes, and returns its 0 or -1."""

    def __init__(self, backend: Backend, recording: MxnetRecording) -> None:
        super().__init__()
        self._makers = (Readings(backend, recording), Operations(backend, recording))

    def replacements(self) -> Iterator[tuple[Any, str, Any]]:
        """``getattr`` makes ctypes keep a function in ``vars(_LIB)``, where it is the original."""
        for maker in self._makers:
            for name, stand_in in maker.by_name():
                yield _LIB, name, stand_in(getattr(_LIB, name))
