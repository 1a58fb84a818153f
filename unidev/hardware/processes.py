"""Who this process is, and what other processes have loaded, as ``/proc`` tells."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from unidev.hardware.facts import Process

_PROC = Path("/proc")

_LIBRARIES = {
    "libtorch": "PyTorch",
    "libtensorflow": "TensorFlow",
    "libpaddle": "PaddlePaddle",
    "libmxnet": "MXNet",
    "xla_cuda": "JAX",
}
"""By which of its libraries a framework is known in another process."""

_OPEN_ONCE_INITIALISED = ("/dev/nvidia-uvm", "/dev/kfd", "/dev/dxg")
"""CUDA and ROCm open these when they are initialised; asking the driver what there is does not."""


def this_process(proc: Path = _PROC) -> Process:
    """The process that asks, and whether it was forked from one that has a GPU open."""
    pid, parent = os.getpid(), os.getppid()
    words = _bytes(proc / str(pid) / "cmdline")
    return Process(
        pid,
        parent,
        # What was started by itself, also by multiprocessing's spawn, has other arguments.
        is_forked=bool(words) and words == _bytes(proc / str(parent) / "cmdline"),
        holds_gpu=_held(proc / str(pid)),
        parent_holds_gpu=_held(proc / str(parent)),
    )


def process_told(pid: int, proc: Path = _PROC) -> tuple[str | None, tuple[str, ...]]:
    """The name of a process, and the frameworks whose libraries it has loaded."""
    words = _bytes(proc / str(pid) / "cmdline").split(b"\0")
    name = " ".join(word.decode(errors="replace") for word in words[:3] if word) or None
    maps = _bytes(proc / str(pid) / "maps").decode(errors="replace")
    return name, tuple(framework for sign, framework in _LIBRARIES.items() if sign in maps)


def _held(folder: Path) -> tuple[str, ...]:
    held = set()
    with contextlib.suppress(OSError):  # another user's process, or a system without /proc
        for each in (folder / "fd").iterdir():
            with contextlib.suppress(OSError):  # closed meanwhile, as the folder's own is
                held.add(os.readlink(each))
    return tuple(name for name in _OPEN_ONCE_INITIALISED if name in held)


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # over, or another user's
        return b""
