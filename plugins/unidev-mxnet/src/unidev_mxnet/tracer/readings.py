"""Stand-ins for the C functions that move data between a device and the host."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from unidev.contract import PlannedTransfer
from unidev_mxnet.tracer.arrays import are_apart, device_at, size_at
from unidev_mxnet.tracer.names import outermost_call

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from unidev.contract import Backend, Device
    from unidev_mxnet.tracer.recording import MxnetRecording

    Function = Callable[..., Any]
    Find = Callable[..., list[PlannedTransfer]]


class Readings:
    """Report what moves, and call the originals."""

    def __init__(self, backend: Backend, recording: MxnetRecording) -> None:
        self._backend = backend
        self._recording = recording

    def by_name(self) -> Iterator[tuple[str, Callable[[Function], Function]]]:
        """The name of each function, and the factory of its stand-in."""
        finds: dict[str, Find] = {
            "MXNDArraySyncCopyToCPU": self._read,
            "MXNDArraySaveRawBytes": self._read,  # pickle, deepcopy
            "MXNDArrayGetSharedMemHandle": self._read,  # to other processes of a DataLoader
            "MXNDArraySyncCopyFromCPU": self._filled,
            "MXNDArraySyncCopyFromNDArray": self._filled_from,  # parts of a sparse array
            "MXNDArraySave": self._saved,
        }
        for name, find in finds.items():
            yield name, partial(self._recording.wrap, transfers_of=find)

    def _read(self, array: Any, *_: Any) -> list[PlannedTransfer]:
        return self._between(array, device_at(array, self._backend), self._backend.cpu)

    def _filled(self, array: Any, *_: Any) -> list[PlannedTransfer]:
        return self._between(array, self._backend.cpu, device_at(array, self._backend))

    def _filled_from(self, target: Any, source: Any, *_: Any) -> list[PlannedTransfer]:
        backend = self._backend
        return self._between(source, device_at(source, backend), device_at(target, backend))

    def _saved(self, _file: Any, _count: Any, arrays: Any, *_: Any) -> list[PlannedTransfer]:
        return [transfer for array in arrays for transfer in self._read(array)]

    def _between(
        self, array: Any, source: Device | None, target: Device | None
    ) -> list[PlannedTransfer]:
        if source is None or target is None or not are_apart(source, target):
            return []
        shape, nbytes = size_at(array)
        return [PlannedTransfer(outermost_call(), source, target, nbytes, shape)]
