"""Transfers by Paddle's own calls, seen from Python while a scope is open.

Paddle has no hook for that. So, while a scope is open in any thread, the functions through which
Python reaches Paddle's C++ are replaced by others, which first look at the devices of their
arguments; in threads without a scope these call the originals. Transfers within C++ stay unseen:
``blind_spots`` lists them.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from unidev.contract import Tracer
from unidev_paddle.importing import import_paddle
from unidev_paddle.tracer.patches import PaddlePatches, recording

if TYPE_CHECKING:
    from collections.abc import Mapping

    from unidev.contract import Backend

paddle: Any = import_paddle()


class PaddleTracer(Tracer):
    """Replaces Paddle's own functions."""

    recording = recording

    blind_spots: Mapping[str, str] = {
        "transfers in backward": (
            "Paddle's engine is C++: of the gradients that change device, only those moved by "
            "Python functions in the graph are seen (unidev's copies, PyLayer, hooks)"
        ),
        "static graphs, paddle.jit, paddle.inference": (
            "a compiled program moves what it needs within C++"
        ),
        "batches of a DataLoader": "C++ moves them to the default device, in a thread of its own",
        "paddle.distributed": "collectives, and tensors spread over devices, move data within C++",
        "results whose shape depends on values": (
            "nonzero, masked_select, unique and indexing by a mask read the count in C++"
        ),
        "functions taken before the block": (
            "f = x.numpy, or what a module that is not Paddle's has imported from paddle._C_ops, "
            "is not replaced"
        ),
        "memory shared with other frameworks": "DLPack passes an address, not bytes",
    }
    gpu_queries = MappingProxyType(
        {
            "paddle.is_compiled_with_cuda": paddle,
            "paddle.device.is_compiled_with_cuda": paddle.device,
            "paddle.device.cuda.device_count": paddle.device.cuda,
        }
    )

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self.patches = PaddlePatches(backend)
