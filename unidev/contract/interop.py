"""``Interop``: the part of the contract for memory that frameworks share, by DLPack."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from unidev.contract.optional import BackendPart
from unidev.errors import UnsupportedOperation

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    import numpy as np

    Tensor = Any
    Array = np.ndarray[Any, Any]


class Interop(BackendPart, ABC):
    """Behind ``convert``: gives tensors' memory to other frameworks, and takes theirs.

    ``export`` and ``adopt`` raise ``UnsupportedOperation`` or ``BufferError`` for memory that
    cannot be shared as it is, before anything could crash; ``convert`` then copies, or says why it
    cannot share. Memory of simulated GPUs never comes here.
    """

    keeps_read_only = False
    """Whether tensors made by ``adopt(…, is_read_only=True)`` cannot be written to."""

    @abstractmethod
    def export(self, x: Tensor) -> Any:
        """An object with ``__dlpack__`` and ``__dlpack_device__`` for the memory of ``x``.

        It shares all elements of ``x``, in their order, without gradients, also for writing, and
        keeps the memory alive. No stride is negative. What was queued that writes to ``x`` is done.
        Raises errors as ``copy_to`` does, where the memory of ``x`` is gone. See ``Exported``.
        """

    @abstractmethod
    def adopt(self, exported: Any, is_read_only: bool) -> Tensor:
        """A tensor on the memory of ``exported``, which another framework's ``export`` returned.

        Never a copy. It keeps the memory alive. ``is_read_only``: nothing may write to it.
        """

    def dtypes(self) -> Collection[str]:
        """The names, among those of the backend, that this framework's DLPack carries: here all."""
        return self.backend.dtypes.keys()

    def is_immutable(self, x: Tensor) -> bool:  # noqa: ARG002
        """Whether nothing may write to the memory of ``x``."""
        return False

    def packed(self, x: Tensor) -> Tensor:
        """A copy of ``x`` in new memory on the CPU, contiguous, without gradients."""
        return self.backend.copy_to(x, self.backend.cpu, False)


class Exported:
    """The two methods of DLPack, for tensors that lack them or whose own ask for too much."""

    __slots__ = ("_device", "_make")

    def __init__(self, make: Callable[[], Any], device: tuple[int, int] = (1, 0)) -> None:
        """``make`` returns a new capsule; ``device`` is in DLPack's numbers, by default the CPU."""
        self._make = make
        self._device = device

    def __dlpack__(self, **_options: object) -> Any:
        return self._make()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device


class HostInterop(Interop):
    """For a framework whose tensors on the CPU are NumPy's arrays underneath: two methods."""

    keeps_read_only = True

    @abstractmethod
    def array_of(self, x: Tensor) -> Array:
        """A plain array on the memory of ``x``, writable where that is; ``x`` may be empty."""

    @abstractmethod
    def tensor_of(self, array: Array) -> Tensor:
        """A tensor on the memory of a plain NumPy array, which may be empty."""

    def export(self, x: Tensor) -> Array:
        """A plain array; NumPy itself refuses byte orders and strides that DLPack lacks."""
        array = self.array_of(x)
        flags = array.flags
        if flags.carray:  # in C order, aligned and writable
            return array
        if not flags.c_contiguous and any(stride < 0 for stride in array.strides):
            # torch.from_dlpack, for one, ends the process.
            raise UnsupportedOperation(
                "sharing an array", "it has a negative stride, which frameworks do not have"
            )
        if not flags.aligned:
            raise UnsupportedOperation(
                "sharing an array",
                "its elements are not aligned, and frameworks may crash on such addresses",
            )
        return array if flags.writeable else _writable(array)  # NumPy exports no read-only one

    def adopt(self, exported: Any, is_read_only: bool) -> Tensor:
        """Writable where it may be: NumPy makes it read-only where it is not told (DLPack 0)."""
        import numpy as np

        made: Array = np.from_dlpack(exported)
        if is_read_only:
            made.flags.writeable = False
        elif not made.flags.writeable:
            made = _writable(made)
        return self.tensor_of(made)

    def is_immutable(self, x: Tensor) -> bool:
        """Whether it is read-only."""
        return not self.array_of(x).flags.writeable


class _Memory:
    """Memory that an array belongs to, as ``numpy.asarray`` takes it."""

    __slots__ = ("__array_interface__", "_owner")

    def __init__(self, interface: dict[str, Any], owner: Array) -> None:
        self.__array_interface__ = interface
        self._owner = owner


def _writable(x: Array) -> Array:
    """An array on the same memory that may be written to, and keeps ``x`` alive."""
    import numpy as np

    interface = x.__array_interface__
    interface["data"] = (interface["data"][0], False)
    return np.asarray(_Memory(interface, x))
