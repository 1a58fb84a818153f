"""What Paddle moves between devices by its own calls, seen from Python while a scope is open.

Paddle has no hook for that. So, while a scope is open in any thread, the functions through which
Python reaches Paddle's C++ are replaced by others, which look at the devices of their arguments
first; in threads without a scope these call the originals. Transfers within C++ stay unseen:
``blind_spots`` lists them.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from unidev.contract import Tracer
from unidev_paddle.tracer.patches import PaddlePatches
from unidev_paddle.tracer.recording import recording

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from unidev.contract import Backend, PlannedTransfer


class PaddleTracer(Tracer):
    """By functions in the place of Paddle's own."""

    blind_spots: Mapping[str, str] = {
        "what backward moves": (
            "Paddle's engine is C++: of gradients that cross devices only what Python functions in "
            "the graph move is seen (unidev's copies, PyLayer, hooks)"
        ),
        "static graphs, paddle.jit, paddle.inference": (
            "a program that was compiled moves what it needs within C++"
        ),
        "batches of a DataLoader": "C++ takes them to the default device, in a thread of its own",
        "paddle.distributed": "collectives move data within C++; so do tensors spread over devices",
        "results whose shape depends on values": (
            "nonzero, masked_select, unique and indexing by a mask read in C++ how many there are"
        ),
        "functions taken before the block": (
            "f = x.numpy, or what a module that is not Paddle's has imported from paddle._C_ops, "
            "is not replaced"
        ),
        "memory shared with other frameworks": "DLPack hands over an address, and no bytes",
    }

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self._patches = PaddlePatches(backend)

    @contextmanager
    def watch(
        self, begin: Callable[[PlannedTransfer], Any], end: Callable[[Any], None]
    ) -> Iterator[None]:
        """See ``Tracer``."""
        with self._patches, recording.scope(begin, end):
            yield
