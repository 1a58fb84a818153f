"""``SimulatedArray``: an ndarray that knows its simulated device and refuses to mix.

As on real accelerators, results stay on the device of their operands, and mixing arrays of two
devices is an error. Plain arrays are on the CPU; numbers may be combined with any device. Limits of
the simulation: ``numpy.asarray(a)``, ``a.flat``, ``a.real = b`` and C code that takes the buffer
bypass it, and NumPy's own ``zeros(3, device="gpu:0")`` is a ValueError: ``unidev.zeros`` takes it,
or ``like=a``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import unidev
from unidev.backends.numpy_backend import NumpySimulator
from unidev.contract import Device
from unidev.errors import DeviceMismatchError, UnsupportedDtypeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Array = np.ndarray[Any, Any]


class SimulatedArray(np.ndarray):
    """An array on the simulated GPU ``simulated_device``."""

    simulated_device: Device

    @classmethod
    def place(cls, array: Array, device: Device) -> SimulatedArray:
        """A view of ``array`` that counts as memory of ``device``."""
        placed = array.view(cls)
        placed.simulated_device = device
        return placed

    @property
    def device(self) -> str:  # type: ignore[override]  # NumPy's own says "cpu" of every array
        """Where it is: ``gpu:0``."""
        return str(self.simulated_device)

    def to_device(self, device: Any, /, *, stream: Any = None) -> Array:  # noqa: ARG002  has none
        """The array API's name of ``unidev.as_in_device``."""
        return unidev.as_in_device(self, device)

    def __array_finalize__(self, parent: Array | None) -> None:
        """Views, and arrays that NumPy makes like another one, stay on that array's device.

        Raises:
            UnsupportedDtypeError: the simulated GPUs lack the dtype; in PyTorch's words for MPS.
        """
        self.simulated_device = getattr(parent, "simulated_device", None) or _host()
        if NumpySimulator.lacks and (name := self.dtype.name) in NumpySimulator.lacks:
            raise UnsupportedDtypeError(
                f"cannot convert a simulated array to {name}, as the simulated GPUs don't support "
                f"{name}. Please use 32 bits instead. (UNIDEV_SIMULATE_LIKE)"
            )

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        """Operators and ufuncs, ``out=`` and ``where=`` included."""
        return _on_one_device(getattr(ufunc, method), inputs, options, ufunc.__name__)

    def __array_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: Any, kwargs: Any
    ) -> Any:
        """``numpy.concatenate`` and the like, also ``like=`` this array, and with ``device=``."""
        wanted = kwargs.pop("device", None)
        made = _on_one_device(func, args, kwargs, func.__name__, self.simulated_device)
        return made if wanted is None else unidev.as_in_device(made, wanted)

    def __getitem__(self, key: Any) -> Any:
        """An element is a zero-dimensional array on the device, not a number on the host."""
        device = _common_device((self, key), "indexing")
        return _back(self.view(np.ndarray)[_plain(key)], device)

    def __setitem__(self, key: Any, value: Any) -> None:
        """Assigning refuses an array of another device."""
        _common_device((self, key, value), "assigning")
        self.view(np.ndarray)[_plain(key)] = _plain(value)

    def fill(self, value: Any) -> None:
        """As assigning to all elements."""
        self[...] = value

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(len(self)))

    def __reduce__(self) -> Any:
        return SimulatedArray.place, (self.view(np.ndarray), self.simulated_device)

    def __deepcopy__(self, memo: dict[int, Any] | None, /) -> SimulatedArray:
        return SimulatedArray.place(self.view(np.ndarray).copy(), self.simulated_device)


def _host() -> Device:
    return Device("numpy", "cpu", 0)


def _method(name: str) -> Callable[..., Any]:
    plain = getattr(np.ndarray, name)

    def method(self: SimulatedArray, *args: Any, **options: Any) -> Any:
        return _on_one_device(plain, (self, *args), options, name)

    method.__name__ = name
    method.__doc__ = f"``numpy.ndarray.{name}``, on the array's device."
    return method


for _name in (
    "all", "any", "argmax", "argmin", "argpartition", "argsort", "choose", "clip", "compress",
    "cumprod", "cumsum", "diagonal", "dot", "max", "mean", "min", "nonzero", "partition", "prod",
    "put", "repeat", "round", "searchsorted", "std", "sum", "take", "trace", "var",
):  # fmt: skip
    setattr(SimulatedArray, _name, _method(_name))


def _on_one_device(
    function: Callable[..., Any], args: Any, options: Any, name: str, of_none: Device | None = None
) -> Any:
    """Call ``function`` on plain arrays if all are on one device; the result stays on it.

    Of no arrays, it is on the device ``of_none``.
    """
    device = _common_device((args, options), name) or of_none
    out = options.get("out")
    result = function(*_plain(args), **_plain(options))
    if out is None:
        return _back(result, device)
    if not isinstance(out, tuple):
        return out
    results = result if len(out) > 1 else (result,)
    filled = [_back(y, device) if x is None else x for x, y in zip(out, results, strict=True)]
    return tuple(filled) if len(out) > 1 else filled[0]


def _common_device(values: Any, name: str) -> Device | None:
    found: dict[str, Any] = {}
    _collect(values, found)
    if len(set(found.values())) > 1:
        listed = ", ".join(f"{path}: {device}" for path, device in found.items())
        raise DeviceMismatchError(
            f"numpy.{name} of arrays on different devices ({listed}). Move them to one device "
            "with as_in_device(x, device).",
            devices=found,
        )
    return next(iter(found.values()), None)


def _collect(value: Any, found: dict[str, Any]) -> None:
    if isinstance(value, SimulatedArray):
        found[f"array {len(found)}"] = value.simulated_device
    elif isinstance(value, np.ndarray):
        found[f"array {len(found)}"] = _host()
    elif isinstance(value, (tuple, list)):
        for item in value:
            _collect(item, found)
    elif isinstance(value, dict):
        for item in value.values():
            _collect(item, found)


def _plain(value: Any) -> Any:
    if isinstance(value, SimulatedArray):
        return value.view(np.ndarray)
    if type(value) in (tuple, list):
        return type(value)(_plain(item) for item in value)
    if type(value) is dict:
        return {key: _plain(item) for key, item in value.items()}
    return value


def _back(result: Any, device: Device | None) -> Any:
    """``result`` on ``device``: arrays, and numbers as zero-dimensional arrays."""
    if device is None or device.kind == "cpu":
        return result
    if isinstance(result, (np.ndarray, np.generic)):
        return SimulatedArray.place(np.asarray(result), device)
    if isinstance(result, tuple) and hasattr(result, "_fields"):
        return type(result)(*(_back(item, device) for item in result))
    if isinstance(result, (tuple, list)):
        return type(result)(_back(item, device) for item in result)
    return result
