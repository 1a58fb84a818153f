"""``copy_to`` of pageable memory, to a GPU and back, against ``cudaMemcpy`` of the same bytes."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from measure import Row, compare, sized
from own_calls import VERBS
from program import main

import unidev
from unidev.system.wording import bytes_text

if TYPE_CHECKING:
    from collections.abc import Iterator

SIZES = tuple(2**20 * 4**power for power in range(sized(5, 1)))
"""1 MiB to 256 MiB; in a trial 1 MiB."""
ROUNDS = 11
_TO_GPU, _TO_HOST = 1, 2
"""``cudaMemcpyHostToDevice``, ``cudaMemcpyDeviceToHost``."""


def rows_of(backend: str, spec: str) -> Iterator[Row | str]:
    """Two rows for each size; ``spec`` is a GPU."""
    gpu = unidev.as_device(spec)
    unidev.zeros(1, device=gpu)
    memcpy = _cuda_memcpy()
    if memcpy is None:
        yield "loads no CUDA runtime (libcudart) that has cudaMemcpy"
        return
    for size in SIZES:
        values = np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8)
        host = unidev.array(values)
        there, target = unidev.copy_to(host, gpu), np.empty_like(values)
        names: dict[str, Any] = {
            **VERBS, "memcpy": memcpy, "gpu": gpu, "host": host, "there": there,
            "at": unidev.active_backend().extents(there)[0].address, "size": size,
            "source": values.ctypes.data, "target": target.ctypes.data,
        }  # fmt: skip
        for way, ours, theirs in (
            ("to the GPU", "copy_to(host, gpu)", f"memcpy(at, source, size, {_TO_GPU})"),
            ("to the host", "copy_to(there, 'cpu')", f"memcpy(target, at, size, {_TO_HOST})"),
        ):
            timed = compare(f"{ours}; synchronize(gpu)", theirs, names, ROUNDS)
            yield Row(backend, f"{bytes_text(size)} {way}", "cudaMemcpy", *timed, None)
        if not (target == values).all():
            raise AssertionError(f"cudaMemcpy of {size} bytes gave others")


def _cuda_memcpy() -> Any:
    """The function of the CUDA runtime that the framework has loaded, or None."""
    runtime = _runtime()
    if runtime is None:
        return None
    function = runtime.cudaMemcpy
    function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]

    def memcpy(target: int, source: int, size: int, kind: int) -> None:
        code = function(target, source, size, kind)
        if code:
            raise RuntimeError(f"cudaMemcpy failed with code {code}")

    return memcpy


def _runtime() -> ctypes.CDLL | None:
    own = ctypes.CDLL(None)
    if hasattr(own, "cudaMemcpy"):
        return own
    loaded = Path("/proc/self/maps")
    lines = loaded.read_text(encoding="utf-8").splitlines() if loaded.exists() else []
    names = sorted({line.split()[-1] for line in lines if "libcudart" in line})
    return ctypes.CDLL(names[0]) if names else None


if __name__ == "__main__":
    main(__doc__ or "", rows_of, device="gpu:0")
