"""Tensors on several devices: what says that they are on one, and what reads only a part."""

from __future__ import annotations

from typing import Any

import numpy as np

from mutants.mutant import mutant, replace, replace_value
from unidev.backends.numpy_backend.probe import NumpyProbe
from unidev.errors import UnsupportedOperation

_CHECK = "errors.tensors_elsewhere"


def _shard(backend: Any, refusal: str) -> type:
    """Give ``backend`` and its probe a tensor on two devices, which ``device_of`` refuses so."""

    class Sharded(np.ndarray):
        """An array with a half on each of two devices."""

    device_of = backend.device_of

    @replace(backend)
    def device_of(self: Any, x: Any, device_of: Any = device_of) -> Any:
        if type(x) is Sharded:
            raise UnsupportedOperation("finding the device of an array", refusal)
        return device_of(self, x)

    def elsewhere(_: Any) -> Any:
        return {"sharded": (np.arange(8.0).view(Sharded), ["gpu:0", "gpu:1"])}

    replace_value(NumpyProbe, "elsewhere", elsewhere)
    return Sharded


@mutant(_CHECK, result="pass")
def sharded_tensors_are_refused(backend):
    """Nothing is broken: the error has both devices, and the values can be read."""
    _shard(backend, "it is sharded over gpu:0 and gpu:1")


@mutant(_CHECK)
def the_first_shard_is_read(backend):
    """Only the first shard is read: ``x.addressable_data(0)`` in JAX."""
    sharded = _shard(backend, "it is sharded over gpu:0 and gpu:1")
    to_numpy = backend.to_numpy

    @replace(backend)
    def to_numpy(self, x, to_numpy=to_numpy):
        return to_numpy(self, x[: len(x) // 2] if type(x) is sharded else x)
