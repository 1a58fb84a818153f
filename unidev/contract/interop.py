"""``Interop``: the part of the contract for memory that frameworks share, by DLPack."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from unidev.contract.optional import BackendPart

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    Tensor = Any


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
