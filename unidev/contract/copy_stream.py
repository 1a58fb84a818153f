"""``CopyStream``: the part of the contract for copies beside the framework's own work."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    Tensor = Any


class CopyStream(ABC):
    """A queue of copies to one device; ``Backend.copy_stream`` makes one.

    ``copy`` and ``mark`` are called in one thread, ``hand_out`` in the thread that uses the copies.
    """

    @abstractmethod
    def copy(self, x: Tensor) -> Tensor | None:
        """A copy of ``x`` on the device, in new memory; None for a tensor that it cannot copy.

        ``x`` is on any device of the framework. It may be changed and dropped as soon as this
        returns, though the bytes may arrive later: copy those of the host to pinned memory first.
        """

    @abstractmethod
    def mark(self) -> Any:
        """The end of the queue, as it is now."""

    @abstractmethod
    def hand_out(self, mark: Any, tensors: Sequence[Tensor]) -> None:
        """Let work that this thread queues from now on wait for the copies before ``mark``.

        ``tensors`` were made by them. Does not wait itself, and waits for nothing else.
        """
