"""The stand-in that this process runs on: what it counted, what shall fail, which card is lost."""

from __future__ import annotations

import ctypes
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from building import LIBRARY

if TYPE_CHECKING:
    from collections.abc import Iterator

OUT_OF_MEMORY = 2
UNKNOWN = 999
DEVICE_ASSERT = 710


class Counts(dict[str, int]):
    """What was counted, by the names that README.md lists; ``str`` shows what is not 0."""

    def __str__(self) -> str:
        return str({name: number for name, number in self.items() if number})


class Runtime:
    """The functions of ``cuda/control.cpp``."""

    def __init__(self) -> None:
        preloaded = os.environ.get("LD_PRELOAD", "").partition(os.pathsep)[0]
        if not preloaded.endswith(LIBRARY):
            raise RuntimeError("this process runs on no stand-in: start it with run.py")
        self._library = ctypes.CDLL(preloaded)
        self._library.stand_in_names.restype = ctypes.c_char_p
        self._library.stand_in_counted.restype = ctypes.c_longlong
        self._library.stand_in_queued.restype = ctypes.c_long
        self._names = self._library.stand_in_names().decode().split("\n")[:-1]

    def counts(self) -> Counts:
        """Of everything since the process began, or since ``reset``."""
        return Counts({name: self._library.stand_in_counted(name.encode()) for name in self._names})

    @contextmanager
    def counting(self) -> Iterator[Counts]:
        """What the block does, complete when it ends."""
        before, during = self.counts(), Counts()
        yield during
        during.update({name: number - before[name] for name, number in self.counts().items()})

    def reset(self) -> None:
        """Forget what was counted and what shall fail."""
        self._library.stand_in_reset()

    def fail(self, kind: str, nth: int = 1, times: int = 1, error: int = OUT_OF_MEMORY) -> None:
        """The ``nth`` from now on fails: "allocation", "pinned allocation", "copy" or "kernel".

        So many ``times`` in all: torch asks for memory a second time, after it has emptied its
        cache.
        """
        numbers = ctypes.c_long(nth), ctypes.c_long(times)
        if not self._library.stand_in_fail(kind.encode(), *numbers, error):
            raise ValueError(f"there is no kind of call {kind!r}")

    def lose(self, index: int) -> None:
        """The card falls off the bus: NVML calls it lost, and the runtime fails on it."""
        self._library.stand_in_lose(index)

    def contexts(self, devices: int = 2) -> list[bool]:
        """Whether this process has a context on each device."""
        return [bool(self._library.stand_in_has_context(device)) for device in range(devices)]

    def queued(self, device: int = 0) -> int:
        """How much work of ``device`` waits to be done."""
        return int(self._library.stand_in_queued(device))

    def finish(self) -> None:
        """Time passes: whatever is queued is done."""
        self._library.stand_in_finish()
