"""A reference whose tensors can be deleted, and twins of it that use them all the same.

NumPy frees no array that is in use. ``deletes_tensors`` gives it arrays that count as deleted, as
JAX's donated and TF's consumed tensors do; the check has to pass it, and not the twins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mutants.mutant import mutant, replace, replace_value
from unidev.backends.numpy_backend.probe import NumpyProbe
from unidev.errors import DeletedTensorError
from unidev.parallel.devices import arguments

if TYPE_CHECKING:
    from collections.abc import Callable

_DELETED = "errors.deleted_tensor"


@mutant(_DELETED, result="pass")
def deletes_tensors(backend):
    """Nothing is broken: the reference with tensors whose memory is gone."""

    def refuse(x):
        raise DeletedTensorError(f"the memory of this tensor of shape {x.shape} was deleted.")

    _delete(backend, refuse)


@mutant(_DELETED)
def deleted_tensor_raises_the_frameworks_error(backend):
    """The framework's own words come through: JAX's "Array has been deleted"."""

    def refuse(x):
        raise RuntimeError("Array has been deleted.")

    _delete(backend, refuse)


@mutant("packing.deleted", profile="multi", result="pass")
def deletes_tensors_of_several_devices(backend):
    """Nothing is broken, as in ``deletes_tensors``."""
    deletes_tensors.breaks(backend)


@mutant("packing.deleted", profile="multi")
def packing_looks_at_no_memory(backend):
    """Only the verbs that copy look: PyTorch's ``cat`` of such a tensor ends the process."""

    deletes_tensors.breaks(backend)
    replace_value(arguments, "check_memory", lambda _, __: None)


def _delete(backend: Any, read: Callable[[Any], Any]) -> None:
    """Give ``backend`` tensors that count as deleted; ``read`` is what reading one comes to."""

    class Deleted(np.ndarray):
        """Knows its device, and has no memory any more."""

        device_then: Any

    plain_device_of, copy, plain_to_numpy = backend.device_of, backend.copy_to, backend.to_numpy

    @replace(backend)
    def device_of(self: Any, x: Any) -> Any:
        return x.device_then if type(x) is Deleted else plain_device_of(self, x)

    @replace(backend)
    def copy_to(self: Any, x: Any, device: Any, non_blocking: bool) -> Any:
        if type(x) is Deleted:
            return self._on(read(x), device)
        return copy(self, x, device, non_blocking)

    @replace(backend)
    def to_numpy(self: Any, x: Any) -> Any:
        return read(x) if type(x) is Deleted else plain_to_numpy(self, x)

    @replace(backend)
    def check_memory(_: Any, x: Any) -> None:
        if type(x) is Deleted:
            read(x)

    def deleted(self: Any, device: Any) -> Any:
        gone = np.ones(3).view(Deleted)
        gone.device_then = device
        return gone

    replace_value(NumpyProbe, "deleted", deleted)
