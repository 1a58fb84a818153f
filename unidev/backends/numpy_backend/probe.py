"""NumPy's ``Probe`` for the conformance suite, through NumPy's own calls."""

from __future__ import annotations

import copy
import io
import pickle
import random
import tempfile
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from unidev.backends.numpy_backend.simulated_array import SimulatedArray
from unidev.contract import PlannedTransfer
from unidev.contract.backend import Extent, unsupported
from unidev.contract.probe import Probe, TransferExample

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from unidev.contract import Device
    from unidev.contract.probe import Contained

    Array = np.ndarray[Any, Any]

_READS: dict[str, tuple[int, tuple[int, ...], Sequence[Callable[[Any], object]]]] = {
    "ndarray.item": (4, (), [lambda x: x.item(1), lambda x: x.item(1, 2)]),
    "in": (1, (), [lambda x: 2.0 in x]),
    "ndarray.tolist": (24, (2, 3), [lambda x: x.tolist()]),
    "ndarray.tobytes": (24, (2, 3), [lambda x: x.tobytes()]),
    "ndarray.__repr__": (24, (2, 3), [repr]),
    "ndarray.__str__": (24, (2, 3), [str]),
    "ndarray.__format__": (24, (2, 3), [lambda x: f"{x}"]),
    "ndarray.dumps": (24, (2, 3), [lambda x: x.dumps()]),
    "pickle": (24, (2, 3), [pickle.dumps]),
    "numpy.save": (24, (2, 3), [lambda x: np.save(io.BytesIO(), x)]),
    "numpy.savez": (24, (2, 3), [lambda x: np.savez(io.BytesIO(), x)]),
    "numpy.savetxt": (24, (2, 3), [lambda x: np.savetxt(io.StringIO(), x)]),
    "numpy.array_repr": (24, (2, 3), [np.array_repr]),
    "numpy.array_str": (24, (2, 3), [np.array_str]),
    "numpy.array2string": (24, (2, 3), [np.array2string]),
    "numpy.allclose": (1, (), [lambda x: np.allclose(x, x)]),
    "numpy.array_equal": (1, (), [lambda x: np.array_equal(x, x)]),
    "numpy.array_equiv": (1, (), [lambda x: np.array_equiv(x, x)]),
}
"""What reads a matrix of six float32: bytes and shape of what is read."""
_OF_ONE: dict[str, Callable[[Any], object]] = {
    "ndarray.item": lambda x: x.item(),
    "ndarray.__bool__": bool,
    "ndarray.__int__": int,
    "ndarray.__float__": float,
    "ndarray.__complex__": complex,
    "ndarray.__format__": lambda x: f"{x:.2f}",
}
_NOTHING: Sequence[Callable[[Any], object]] = [
    lambda x: x + 1, lambda x: x @ x.T, lambda x: x.sum(), lambda x: x[1], lambda x: x.reshape(-1),
    lambda x: x.astype("float64"), lambda x: np.stack([x, x]), lambda x: x.copy(), copy.copy, len,
    list, lambda x: x.__setitem__(0, 5.0), lambda x: np.where(x > 2, x, 0), lambda x: x.shape,
]  # fmt: skip


class NumpyProbe(Probe):
    """Probe of the reference implementation."""

    gradient = unsupported("NumPy has no autograd")
    elsewhere = unsupported("a NumPy array is in one place")
    deleted = unsupported("NumPy does not free an array that is in use")
    current = unsupported("NumPy has no current device")
    side_stream = unsupported("NumPy has no streams")

    def make(self, array: Array, device: Device) -> Array:
        """A copy of ``array``, viewed as a simulated array if the device is simulated."""
        made: Array = np.array(array)
        return SimulatedArray.place(made, device) if device.kind == "gpu" else made

    def read(self, x: Array) -> bytes:
        """``tobytes`` gives C order; of a masked array, of its values and its mask."""
        mask = np.ma.getmaskarray(x).tobytes() if isinstance(x, np.ma.MaskedArray) else b""
        return x.view(np.ndarray).tobytes() + mask

    def same_memory(self, x: Array) -> Array:
        """A view."""
        view: Array = x.view()
        return view

    def views(self, x: Array) -> Mapping[str, Array]:
        """NumPy's views."""
        plain = x.view(np.ndarray)
        views = {
            "transposed": plain.T,
            "sliced": plain[1:, ::2],
            "broadcast": np.broadcast_to(plain, (3, *plain.shape)),
        }
        return _beside(x, views)

    def more_views(self, x: Array) -> Mapping[str, Array]:
        """NumPy's views, which may run backwards."""
        plain = x.view(np.ndarray)
        views = {
            "rows": plain[1:-1],
            "reversed": plain[::-1],
            "mirrored": plain[..., ::-1],
            "permuted": plain.transpose(0, 3, 1, 2),
        }
        return _beside(x, views)

    def write(self, x: Array, value: float) -> None:
        """``x[...] = value``."""
        x[...] = value

    def transfers(self, gpu: Device) -> Iterator[TransferExample]:
        """Methods and functions of NumPy that read an array, and others that read nothing."""
        cpu = type(gpu)(gpu.backend, "cpu", 0)
        values = np.arange(6, dtype="float32").reshape(2, 3)
        for name, (nbytes, shape, calls) in _READS.items():
            for call in calls:
                moved = PlannedTransfer(name, gpu, cpu, nbytes, shape)
                yield TransferExample(partial(call, self.make(values, gpu)), (moved,))
                yield TransferExample(partial(call, self.make(values, cpu)), ())
        one = np.full((), 2.0, "float32")
        for name, call in _OF_ONE.items():
            moved = PlannedTransfer(name, gpu, cpu, 4, ())
            yield TransferExample(partial(call, self.make(one, gpu)), (moved,))
        for call in _NOTHING:
            yield TransferExample(partial(call, self.make(values, gpu)), ())

    def read_out(self, x: Array) -> object:
        """``tolist``."""
        return x.tolist()

    def global_state(self) -> Mapping[str, object]:
        """NumPy's error handling and both global generators."""
        legacy: Any = np.random.get_state(legacy=True)
        kind, keys, *rest = legacy
        return {
            "errstate": np.geterr(),
            "numpy.random": (kind, keys.tobytes(), *rest),
            "random": random.getstate(),
        }

    def specials(self, device: Device) -> Mapping[str, Array]:
        """Records, text, other byte orders and layouts; masked arrays and buffers on the CPU."""
        read_only = np.asfortranarray(np.ones((2, 3), "float32"))
        scalar = np.array(1.5, "float32")
        read_only.flags.writeable = scalar.flags.writeable = False
        found = {
            "records": np.array([(1, 2.5), (3, 4.5)], dtype=[("a", "i4"), ("b", ">f8")]),
            "text": np.array(["a", "bc"]),
            "dates": np.array(["2026-11-21", "NaT"], "M8[D]"),
            "times": np.array([3], "m8[s]"),
            "read-only": read_only,
            "read-only, without dimensions": scalar,
            "big-endian": np.arange(3, dtype=">i4"),
            "big-endian complex": np.array([1 + 2j, -3j], ">c8"),
            "unaligned": np.frombuffer(bytearray(range(13)), "<u4", offset=1),
        }
        if device.kind != "cpu":
            return {name: SimulatedArray.place(x, device) for name, x in found.items()}
        mapped = np.memmap(tempfile.TemporaryFile(), "f4", "w+", shape=(2, 3))  # noqa: SIM115
        masked = np.ma.MaskedArray([1.0, 2.0, 3.0], mask=[False, True, False], fill_value=7.0)
        more = {"masked": masked, "matrix": np.matrix([[1.0, 2.0]]), "mapped file": mapped}
        return {**found, **more}

    def references(self, device: Device) -> Mapping[str, Array]:
        """Arrays of objects, and records with a field of objects."""
        records = np.zeros(2, [("id", "i4"), ("boxes", [("first", object)])])
        records["boxes"]["first"][0] = [1]
        found = {"objects": np.array([[1], None], object), "records of objects": records}
        if device.kind == "cpu":
            return found
        return {name: SimulatedArray.place(x, device) for name, x in found.items()}

    def containers(self, device: Device) -> Mapping[str, Contained]:
        """The results of NumPy's own functions, which are named tuples."""
        x = self.make(np.array([[2.0, 1.0], [1.0, 3.0]]), device)
        return {"svd": (np.linalg.svd(x), list), "eigh": (np.linalg.eigh(x), list)}

    def extents(self, x: Array) -> Sequence[Extent]:
        """The range of addresses of the array at the end of the chain of bases, and of a mask."""
        mask = np.ma.getmask(x)
        return [_extent(each) for each in (x, mask) if isinstance(each, np.ndarray)]


def _extent(x: Array) -> Extent:
    owner = x
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    return Extent(owner.__array_interface__["data"][0], owner.nbytes)


def _beside(x: Array, views: Mapping[str, Array]) -> Mapping[str, Array]:
    """The same views, on the device of ``x``."""
    device = getattr(x, "simulated_device", None)
    return views if device is None else {n: SimulatedArray.place(views[n], device) for n in views}
