"""The embedded default backend, and the reference implementation of the contract.

NumPy has no devices. The only real one is ``cpu:0``; simulated GPUs hold ``SimulatedArray``s, each
with its own memory on the host.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from unidev.backends.numpy_backend import NumpySimulator
from unidev.backends.numpy_backend.simulated_array import SimulatedArray
from unidev.contract.backend import Backend, Extent, part, unsupported
from unidev.contract.dtypes import DTYPES, refuse_masked
from unidev.errors import UnsupportedDtypeError, UnsupportedOperation

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from unidev.contract import Device

    Array = np.ndarray[Any, Any]


class NumpyBackend(Backend):
    """NumPy's arrays, including subclasses."""

    probe = part("unidev.backends.numpy_backend.probe:NumpyProbe")
    models = part("unidev.backends.numpy_backend.models:NumpyModels")
    layers = part("unidev.backends.numpy_backend.nn.layers:NumpyLayers")
    functions = part("unidev.backends.numpy_backend.nn:NumpyFunctions")
    collectives = part("unidev.backends.numpy_backend.collectives:NumpyCollectives")
    interop = part("unidev.backends.numpy_backend.interop:NumpyInterop")
    tracer = part("unidev.backends.numpy_backend.tracer:NumpyTracer")
    installation = part("unidev.backends.numpy_backend.installation:NumpyInstallation")
    makers = (np,)
    native_scope = unsupported("NumPy has no default device", "https://numpy.org/doc/stable/")
    autograd = unsupported("NumPy has no autograd")
    memory = unsupported("NumPy does not count its memory, and its devices share the host's")
    peaks = unsupported("NumPy does not count its memory")
    estimator = unsupported("NumPy does not count its memory")
    loader = unsupported("NumPy has no loaders; arrays and sequences are read without one")
    pinned = unsupported("NumPy does not use GPUs, which pinned memory is for")

    @cached_property
    def model_types(self) -> tuple[type, ...]:  # type: ignore[override]  # read-only is enough here
        """The layers of ``unidev.nn``, imported on first use."""
        from unidev.backends.numpy_backend.nn.layers import Layer

        return (Layer,)

    @property
    def tensor_types(self) -> tuple[type, ...]:
        """``numpy.ndarray``; NumPy's scalars are numbers, not tensors."""
        return (np.ndarray,)

    @cached_property
    def dtypes(self) -> Mapping[str, np.dtype[Any]]:
        """Numbers only: NumPy itself has no bfloat16."""
        return {name: np.dtype(name) for name, each in DTYPES.items() if each.on_host == name}

    def dtypes_on(self, device: Device) -> Sequence[str]:
        """All, or without those that simulated GPUs lack."""
        lacking = () if device.kind == "cpu" else NumpySimulator.lacks
        return [name for name in self.dtypes if name not in lacking]

    def device_count(self, kind: str) -> int:
        """One CPU, and the simulated GPUs."""
        return 1 if kind == "cpu" else self.simulated_count

    def native_device(self, kind: str, index: int) -> Device | str:
        """``"cpu"``, as in the array API; for a simulated GPU, the ``Device`` itself."""
        return "cpu" if kind == "cpu" else self.device(kind, index)

    def native_name(self, kind: str, index: int) -> str:
        """Unidev's own spelling, since NumPy has none."""
        return f"{kind}:{index}"

    def hardware_name(self, kind: str, index: int) -> str:
        """``host memory``, or ``simulated GPU`` and its index."""
        return "host memory" if kind == "cpu" else f"simulated GPU {index}"

    def parse_native(self, spec: object) -> tuple[str, int] | None:  # noqa: ARG002  NumPy names none
        """None: NumPy has no spelling of its own."""
        return None

    def device_of(self, x: Array) -> Device:
        """A simulated array's own device; any other array is on the CPU."""
        return x.simulated_device if type(x) is SimulatedArray else self.cpu

    def copy_to(self, x: Array, device: Device, non_blocking: bool) -> Array:  # noqa: ARG002
        """Always blocks."""
        _refuse_references(x)
        if device is self.device_of(x):
            copied: Array = x.copy()
            return copied
        if type(x) not in (np.ndarray, SimulatedArray):
            way = "x.filled(value), or x.data" if hasattr(x, "filled") else "numpy.asarray(x)"
            raise UnsupportedOperation(
                f"moving a {type(x).__name__} to {device}",
                f"only plain arrays can move to a simulated GPU; pass {way}, the values alone",
            )
        return self._on(x.view(np.ndarray).copy(), device)

    def from_numpy(self, array: Array, dtype: np.dtype[Any], device: Device) -> Array:
        """In C order."""
        return self._on(np.array(array, dtype=dtype, order="C", copy=True, subok=False), device)

    def to_numpy(self, x: Array) -> Array:
        """In C order."""
        _refuse_references(x)
        refuse_masked(type(x))
        return np.array(x, order="C", copy=True, subok=False)

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any], device: Device) -> Array:
        """``numpy.empty``."""
        return self._on(np.empty(shape, dtype), device)

    def zeros(self, shape: tuple[int, ...], dtype: np.dtype[Any], device: Device) -> Array:
        """``numpy.zeros``, whose pages the system clears on first access."""
        return self._on(np.zeros(shape, dtype), device)

    def full(
        self, shape: tuple[int, ...], value: Any, dtype: np.dtype[Any], device: Device
    ) -> Array:
        """``numpy.full``."""
        return self._on(np.full(shape, value, dtype), device)

    def new_like(self, x: Array, value: int | None, device: Device) -> Array | None:
        """By NumPy's own, in the order of ``x``, and of its class, a mask included."""
        if type(x) is np.ndarray and x.flags.c_contiguous:
            return None
        _refuse_references(x)
        made: Array = _LIKE[value](x)
        return made if device is self.device_of(made) else self.copy_to(made, device, False)

    def synchronize(self, device: Device) -> None:
        """Do nothing: NumPy is synchronous."""

    def extents(self, x: Array) -> Sequence[Extent]:
        """The memory of the array at the end of the chain of bases, and of a mask's."""
        _refuse_references(x)
        mask = getattr(x, "mask", None)  # not by numpy.ma, whose import takes long
        return [_extent(each) for each in (x, mask) if isinstance(each, np.ndarray)]

    def _on(self, array: Array, device: Device) -> Array:
        return array if device.kind == "cpu" else SimulatedArray.place(array, device)


_LIKE: Any = {0: np.zeros_like, 1: np.ones_like, None: np.empty_like}
_NUMPY_2 = int(np.__version__.partition(".")[0]) >= 2


def _extent(x: Array) -> Extent:
    owner = x
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    low, high = np.lib.array_utils.byte_bounds(owner) if _NUMPY_2 else np.byte_bounds(owner)  # type: ignore[attr-defined]
    return Extent(low, high - low if owner.size else 0)


def _refuse_references(x: Array) -> None:
    if x.dtype.hasobject:
        raise UnsupportedDtypeError(
            "an array of Python objects holds references, so a copy would share the objects. Use "
            "copy.deepcopy, or an array of numbers."
        )
