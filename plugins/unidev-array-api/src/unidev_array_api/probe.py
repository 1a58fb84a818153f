"""What the conformance suite needs, by the libraries' own calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from unidev.contract import Extent, Probe, unsupported

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from unidev.contract import Array, Contained, Device
    from unidev_array_api.backend import ArrayApiBackend

    Tensor = Any


class ArrayApiProbe(Probe):
    """By the standard, where it says enough."""

    backend: ArrayApiBackend
    deleted = unsupported("the standard has no array that is deleted while in use")
    current = unsupported("the standard has no current device")
    side_stream = unsupported("the standard has no streams")

    def make(self, array: Array, device: Device) -> Tensor:
        """``asarray(copy=True)``."""
        return self.backend.xp.asarray(array, copy=True, device=device.native)

    def same_memory(self, x: Tensor) -> Tensor:
        """A view of all of it."""
        return x[...]

    def views(self, x: Tensor) -> Mapping[str, Tensor]:
        """The libraries' views."""
        broadcast = self.backend.xp.broadcast_to(x, (3, *x.shape))
        return {"transposed": x.T, "sliced": x[1:, ::2], "broadcast": broadcast}

    def more_views(self, x: Tensor) -> Mapping[str, Tensor]:
        """Views, which may run backwards."""
        return {
            "rows": x[1:-1, ...],
            "reversed": x[::-1, ...],
            "mirrored": x[..., ::-1],
            "permuted": self.backend.xp.permute_dims(x, (0, 3, 1, 2)),
        }

    def containers(self, device: Device) -> Mapping[str, Contained]:
        """The results of the standard's functions, which are named tuples."""
        xp = self.backend.xp
        x = self.make(np.array([[2.0, 1.0], [1.0, 3.0]], "float32"), device)
        return {"svd": (xp.linalg.svd(x), list), "eigh": (xp.linalg.eigh(x), list)}

    def global_state(self) -> Mapping[str, object]:
        """NumPy's error handling, which libraries on top of it might change."""
        return {"errstate": np.geterr()}


class StrictProbe(ArrayApiProbe):
    """By the array of NumPy's that each array of the library holds in ``_array``."""

    def read(self, x: Tensor) -> bytes:
        """``tobytes``, in C order."""
        return bytes(x._array.tobytes())

    def write(self, x: Tensor, value: float) -> None:
        """By NumPy, which converts ``value`` to the dtype."""
        x._array[...] = value

    def extents(self, x: Tensor) -> Sequence[Extent]:
        """The range of addresses of the array at the end of the chain of bases."""
        owner = x._array
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        return [Extent(owner.__array_interface__["data"][0], owner.nbytes)]

    def specials(self, device: Device) -> Mapping[str, Tensor]:
        """An array on memory that may not be written to."""
        values = np.ones((2, 3), "float32")
        values.flags.writeable = False
        xp = self.backend.xp
        return {"read-only": xp.asarray(values, copy=False, device=device.native)}

    def elsewhere(self) -> Mapping[str, tuple[Tensor, Sequence[str]]]:
        """Arrays on devices of the library that are not among unidev's."""
        xp = self.backend.xp
        listed = [device.native for device in self._listed()]
        others = [
            native for native in xp.__array_namespace_info__().devices() if native not in listed
        ]
        values = np.arange(6, dtype="float32").reshape(2, 3)
        return {str(d): (xp.asarray(values, copy=True, device=d), (str(d),)) for d in others}

    def global_state(self) -> Mapping[str, object]:
        """The flags of the library, too."""
        flags = self.backend.xp.get_array_api_strict_flags()
        return {**super().global_state(), "flags": flags}

    def _listed(self) -> Sequence[Device]:
        gpus = range(self.backend.simulated_count)
        return [self.backend.cpu, *(self.backend.device("gpu", index) for index in gpus)]


class DpnpProbe(ArrayApiProbe):
    """By dpnp's array of SYCL's unified memory."""

    allocated_bytes = unsupported("SYCL's runtime counts no memory, and takes it from the system")

    def read(self, x: Tensor) -> bytes:
        """``asnumpy``, and NumPy's bytes in C order."""
        return bytes(self.backend.xp.asnumpy(x).tobytes())

    def write(self, x: Tensor, value: float) -> None:
        """``x[...] =`` an array of the dtype."""
        x[...] = self.backend.xp.asarray(np.full((), value).astype(x.dtype), device=x.device)

    def extents(self, x: Tensor) -> Sequence[Extent]:
        """All of the allocation."""
        memory = x.get_array().usm_data
        return [Extent(memory._pointer, memory.nbytes if x.get_array().size else 0)]
