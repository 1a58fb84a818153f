"""Reports reads of simulated arrays: NumPy's only transfers that are not unidev's own."""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Any

from unidev.backends.numpy_backend.simulated_array import SimulatedArray
from unidev.contract import PlannedTransfer
from unidev.contract.tracer import Patches, Recording, Tracer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from unidev.contract.backend import Backend

_NUMBERS = ("item", "__bool__", "__complex__", "__float__", "__index__", "__int__")
"""Methods that read one element."""
_WHOLE = (
    "__array__", "__dlpack__", "__format__", "__reduce__", "__repr__", "__str__", "dump", "dumps",
    "tobytes", "tofile", "tolist",
)  # fmt: skip
"""Methods that read the entire array; counted in full even if NumPy prints only a part."""
_ANSWERS = ("allclose", "array_equal", "array_equiv")
"""NumPy functions that return a Python bool, and move that one byte."""
_READERS = (
    "array2string", "array_repr", "array_str", "save", "savetxt", "savez", "savez_compressed",
)  # fmt: skip
"""NumPy functions that read their argument."""


class _SimulatedArrayPatches(Patches):
    @cache  # noqa: B019  there is one, for ever
    def replacements(self) -> list[tuple[Any, str, Any]]:
        return list(self._replacements())

    def _replacements(self) -> Iterator[tuple[Any, str, Any]]:
        for name in (*_NUMBERS, *_WHOLE, "__contains__"):
            original = getattr(SimulatedArray, name)
            yield SimulatedArray, name, _recording.wrap(original, partial(_read_by_method, name))
        original = SimulatedArray.__array_function__
        yield SimulatedArray, "__array_function__", _recording.wrap(original, _read_by_function)


_recording = Recording()


class NumpyTracer(Tracer):
    """Methods of ``SimulatedArray``, replaced while a scope is open in any thread."""

    is_seconds_real = False
    recording = _recording
    patches = _SimulatedArrayPatches()  # one for all tracers, since the class is one for all

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        if backend.simulated_count:  # without, there is one device and no transfer to miss
            self.blind_spots = {
                "numpy.asarray(a), numpy.array(a), a.view(numpy.ndarray), and C code that takes "
                "the buffer": "NumPy itself has no devices, so these bypass the simulated one",
                "a method taken from an array before the block, such as f = a.item": "only the "
                "class's method is replaced",
            }


def _read_by_method(
    name: str, array: SimulatedArray, *arguments: Any, **_: Any
) -> Sequence[PlannedTransfer]:
    operation = {"__contains__": "in", "__reduce__": "pickle"}.get(name, f"ndarray.{name}")
    if name == "__contains__":
        return _read(array, operation, 1, ())
    if name in _NUMBERS:
        return _read(array, operation, array.itemsize, () if arguments else array.shape)
    return _read(array, operation, array.nbytes, array.shape)


def _read_by_function(array: SimulatedArray, function: Any, *_: Any) -> Sequence[PlannedTransfer]:
    name = function.__name__
    if name in _ANSWERS:
        return _read(array, f"numpy.{name}", 1, ())
    return _read(array, f"numpy.{name}", array.nbytes, array.shape) if name in _READERS else ()


def _read(
    array: SimulatedArray, operation: str, nbytes: int, shape: tuple[int, ...]
) -> Sequence[PlannedTransfer]:
    source = array.simulated_device
    if source.kind == "cpu":
        return ()
    cpu = type(source)(source.backend, "cpu", 0)
    return (PlannedTransfer(operation, source, cpu, nbytes, shape),)
