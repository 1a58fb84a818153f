"""In a process whose GPUs are the stand-in: what crossed the bus, and what is in use."""

from __future__ import annotations

import ctypes
import os

import tensorflow as tf

_library = ctypes.CDLL(os.environ["TF_PLUGGABLE_DEVICE_LIBRARY_PATH"])
for _name in ("moved_bytes", "transfers", "streams"):
    getattr(_library, f"stand_in_{_name}").restype = ctypes.c_int64


def moved_bytes(gpu: int = 0) -> int:
    """Bytes moved so far between the host and the card, both ways."""
    return int(_library.stand_in_moved_bytes(gpu))


def transfers(gpu: int = 0) -> int:
    """Their number."""
    return int(_library.stand_in_transfers(gpu))


def is_touched(card: int) -> bool:
    """Whether TensorFlow has made a device of the card: on hardware, that is a context."""
    return int(_library.stand_in_streams(card)) > 0


def used_bytes(gpu: int = 0) -> int:
    """In use by TensorFlow's tensors on the card, by the count of its allocator."""
    return int(tf.config.experimental.get_memory_info(f"GPU:{gpu}")["current"])
