"""``Tracer``: the part of the contract that sees a framework's own transfers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from unidev.backend import Backend
    from unidev.device import Device


class Movement(NamedTuple):
    """Bytes that go from one device to another."""

    operation: str
    """What a user would call it: ``Tensor.item``, ``asnumpy``, ``add of mixed operands``."""
    source: Device
    target: Device
    """Where they go; what is read into Python, or into NumPy, goes to ``cpu:0``."""
    nbytes: int
    shape: tuple[int, ...] | None
    """Of the tensor that is moved; None of several in one, or where nobody knows it."""


class Tracer(ABC):
    """Sees what a framework moves between devices, by whatever call of the framework's.

    Nothing is patched, hooked or slower but while ``watch`` is open, and nothing for other threads.
    """

    blind_spots: Mapping[str, str] = {}
    """What it does not see, in a user's words, and why. Shown with every trace: no silent hole."""

    is_seconds_real = True
    """Whether the time between ``begin`` and ``end`` is that of the movement."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    @abstractmethod
    def watch(
        self, begin: Callable[[Movement], Any], end: Callable[[Any], None]
    ) -> AbstractContextManager[None]:
        """A scope, of this thread, in which each movement is told.

        ``begin`` is called before the bytes move, where the framework lets one (else right after),
        with the user's code on the stack; it may raise, and then nothing is moved, and what it
        raised reaches the user as it is. What it returns is given to ``end`` once the bytes are
        there, or the framework's call has returned or raised.

        A movement is told once, by the outermost call that a user makes: ``x.tolist()``, not each
        step of it. What stays on its device is none. What unidev's own verbs move is not to be told
        (they tell it themselves): whoever opens the scope ignores what comes while they run.

        Scopes nest. Afterwards, also after an exception, whatever was patched is the original
        object again.
        """
