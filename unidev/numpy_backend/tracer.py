"""What is read of simulated arrays: NumPy's only transfers that are not unidev's own."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any

from unidev.contract.tracer import PlannedTransfer, Tracer
from unidev.numpy_backend.simulated_array import SimulatedArray

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from unidev.contract.backend import Backend
    from unidev.contract.device import Device

    Begin = Callable[[PlannedTransfer], Any]
    End = Callable[[Any], None]

_NUMBERS = ("item", "__bool__", "__complex__", "__float__", "__index__", "__int__")
"""Methods that read one element."""
_WHOLE = (
    "__array__", "__dlpack__", "__format__", "__reduce__", "__repr__", "__str__", "dump", "dumps",
    "tobytes", "tofile", "tolist",
)  # fmt: skip
"""Methods that read all there is; of a long array NumPy prints less, and all is counted."""
_ANSWERS = ("allclose", "array_equal", "array_equiv")
"""Functions of NumPy that give a bool of Python's: that one byte is what moves."""
_READERS = (
    "array2string",
    "array_repr",
    "array_str",
    "save",
    "savetxt",
    "savez",
    "savez_compressed",
)
"""Functions of NumPy that read what they are given."""


class _Thread(threading.local):
    def __init__(self) -> None:
        self.scopes: list[tuple[Begin, End]] = []
        self.is_within = False
        """Whether a call is running that was told: what it calls is a part of it."""


_thread = _Thread()
_lock = threading.Lock()
_users = 0
_originals: dict[str, Any] = {}


class NumpyTracer(Tracer):
    """Methods of ``SimulatedArray``, replaced as long as any thread watches."""

    is_seconds_real = False

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        if backend.simulated_count:  # there is one device, and nowhere to go, without
            self.blind_spots = {
                "numpy.asarray(a), numpy.array(a), a.view(numpy.ndarray), and C code that takes "
                "the buffer": "NumPy itself knows no devices: they look beyond the simulated one",
                "a method taken from an array before the block, such as f = a.item": "it is the "
                "class's that is replaced",
            }

    @contextmanager
    def watch(self, begin: Begin, end: End) -> Iterator[None]:
        """See ``Tracer``; other threads' calls pass through untold."""
        _patch()
        scope = (begin, end)
        _thread.scopes.append(scope)
        try:
            yield
        finally:
            _thread.scopes.remove(scope)
            _unpatch()


def _patch() -> None:
    global _users  # noqa: PLW0603  the class is one for all threads
    with _lock:
        _users += 1
        if _users > 1:
            return
        for name in (*_NUMBERS, *_WHOLE, "__contains__"):
            _replace(name, _method(name, getattr(SimulatedArray, name)))
        _replace("__array_function__", _dispatch(SimulatedArray.__array_function__))


def _unpatch() -> None:
    global _users  # noqa: PLW0603  as above
    with _lock:
        _users -= 1
        if _users:
            return
        for name, original in _originals.items():
            if original is None:
                delattr(SimulatedArray, name)
            else:
                setattr(SimulatedArray, name, original)
        _originals.clear()


def _replace(name: str, method: Callable[..., Any]) -> None:
    _originals[name] = vars(SimulatedArray).get(name)  # None: it is ndarray's own
    setattr(SimulatedArray, name, method)


def _method(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    operation = {"__contains__": "in", "__reduce__": "pickle"}.get(name, f"ndarray.{name}")

    @wraps(original)
    def method(self: SimulatedArray, *arguments: Any, **options: Any) -> Any:
        if not _is_to_be_told(self):
            return original(self, *arguments, **options)
        size, shape = self.nbytes, self.shape
        if name == "__contains__":
            size, shape = 1, ()
        elif name in _NUMBERS:
            size, shape = self.itemsize, () if arguments else self.shape
        transfer = PlannedTransfer(operation, self.simulated_device, _cpu(self), size, shape)
        return _told(transfer, lambda: original(self, *arguments, **options))

    return method


def _dispatch(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def dispatch(self: SimulatedArray, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        name = func.__name__
        if name not in (*_ANSWERS, *_READERS) or not _is_to_be_told(self):
            return original(self, func, types, args, kwargs)
        size, shape = (1, ()) if name in _ANSWERS else (self.nbytes, self.shape)
        transfer = PlannedTransfer(f"numpy.{name}", self.simulated_device, _cpu(self), size, shape)
        return _told(transfer, lambda: original(self, func, types, args, kwargs))

    return dispatch


def _is_to_be_told(array: SimulatedArray) -> bool:
    is_watched = bool(_thread.scopes) and not _thread.is_within
    return is_watched and array.simulated_device.kind != "cpu"


def _cpu(array: SimulatedArray) -> Device:
    return type(array.simulated_device)(array.simulated_device.backend, "cpu", 0)


def _told(transfer: PlannedTransfer, call: Callable[[], Any]) -> Any:
    scopes = list(_thread.scopes)
    begun: list[tuple[End, Any]] = []
    _thread.is_within = True
    try:
        for begin, end in scopes:
            begun.append((end, begin(transfer)))
        return call()
    finally:
        _thread.is_within = False
        for end, token in reversed(begun):
            end(token)
