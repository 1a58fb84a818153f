"""``Uploads``: how the tensors and arrays of batches come to a device, ahead of their use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unidev.backends.boundary import call, verb
from unidev.backends.transfers import of_tensor
from unidev.tensors.creating import uploader
from unidev.tensors.host_data import is_host_array, put
from unidev.tensors.transfer import copied

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from unidev.contract.backend import Backend, CopyStream
    from unidev.device import Device
    from unidev.tensors.devices import DeviceLike

OPERATION = "prefetch"


class Ahead:
    """A batch on its device, whose bytes may still be on their way."""

    def __init__(self, batch: Any, waits: list[tuple[CopyStream, Any, list[Any]]]) -> None:
        self._batch = batch
        self._waits = waits

    def handed_out(self) -> Any:
        """The batch, for work of this thread that waits for its copies alone."""
        for stream, mark, tensors in self._waits:
            stream.hand_out(mark, tensors)
        return self._batch


class Uploads:
    """Copies batches to a device: in streams of their own, where the framework has them."""

    def __init__(self, device: DeviceLike, dtype: object) -> None:
        self._device, self._dtype = device, dtype
        self._streams: dict[Device, CopyStream | None] = {}
        self._made: dict[CopyStream, list[Any]] = {}
        self._uploaders: dict[Device, Callable[[np.ndarray[Any, Any]], Any]] = {}

    def put(self, batch: Any) -> Ahead:
        """A copy of ``batch``, which may be overwritten as soon as this returns."""
        # In a tuple, since a batch may be a string, say, which is not a tree.
        given = (OPERATION, (batch,), self._device, self._dtype, self._copy)
        (there,) = verb(OPERATION, put, *given)
        made, self._made = self._made, {}
        return Ahead(there, [(stream, stream.mark(), xs) for stream, xs in made.items()])

    def _copy(self, x: Any, target: Device, backend: Backend) -> Any:
        if target not in self._streams:
            self._streams[target] = backend.copy_stream(target)
        stream = self._streams[target]
        is_array = is_host_array(x, backend) or not isinstance(x, backend.tensor_types)
        if stream is None:
            if is_array:
                return self._made_of(x, target)
            return copied(OPERATION, x, target, backend)
        if is_array:
            x = self._made_of(x, backend.cpu)
        made = call(
            backend, stream.copy, x,
            doing=lambda: (f"copying a tensor of shape {tuple(x.shape)} to {target}", target),
            operation=OPERATION,
            transfers=lambda: of_tensor(OPERATION, x, target, backend),
        )  # fmt: skip
        if made is None:
            return copied(OPERATION, x, target, backend)
        self._made.setdefault(stream, []).append(made)
        return made

    def _made_of(self, array: np.ndarray[Any, Any], device: Device) -> Any:
        upload = self._uploaders.get(device)
        if upload is None:
            upload = self._uploaders[device] = uploader(OPERATION, device)
        return upload(array)
