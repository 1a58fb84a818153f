"""``unidev bench``, and bandwidth against CUDA's own copy."""

from __future__ import annotations

import ctypes
import json
import sys
import time
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

import unidev
from hardware_report import children
from hardware_report.outcome import Findings, NotRunError, Outcome
from hardware_report.setting import need
from unidev.support.wording import bytes_text, number_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from hardware_report.setting import Setting

LIMIT_S = 3500.0
EACH_S = 200
"""For each device: with one GPU, a machine that is lent for ten minutes at a time can finish."""
SIZES = tuple(2**20 * 4**power for power in range(5))
"""1 MiB to 256 MiB."""
TIMINGS = 11
_TO_GPU, _TO_HOST = 1, 2
"""``cudaMemcpyHostToDevice``, ``cudaMemcpyDeviceToHost``."""


def table(setting: Setting) -> Outcome:
    """The measurements of ``unidev bench --full``, within minutes for each device."""
    need("click", "rich")
    setting.real_gpus()
    found = Findings()
    words = ["bench", "--backend", setting.name, "--json", "--full", "--limit", str(EACH_S)]
    ended = children.run(
        [sys.executable, "-m", "unidev", *words],
        LIMIT_S,
        setting.folder,
    )
    if not found.expect(ended.code == 0, f"unidev bench: {ended.briefly}"):
        return found.outcome()
    document = json.loads(ended.out)
    for sentence in document["findings"]:
        found.remark(sentence)
    gpus = {each["device"] for each in document["results"] if each["summary"]}
    found.expect(any("gpu" in each for each in gpus), "bench measured nothing on a GPU")
    found.table(
        "unidev bench",
        ("subject", "what", "device", "variant", "size", "median, s", "timings", "reason"),
        [_row(each) for each in document["results"]],
    )
    kept = ("date", "seconds", "is_full", "load", "crossovers")
    found.keep(**{name: document[name] for name in kept})
    return found.outcome()


def _row(result: dict[str, Any]) -> list[object]:
    timing = result["summary"] or {"median_s": "", "timings": ""}
    named = [result[name] for name in ("subject", "what", "device", "variant")]
    size = "" if result["size"] is None else result["size"]
    return [*named, size, timing["median_s"], timing["timings"], result["reason"] or ""]


def against_cuda(setting: Setting) -> Outcome:
    """``copy_to`` of pageable memory against ``cudaMemcpy`` of the same sizes, interleaved."""
    gpu = setting.real_gpus()[0]
    found, rows = Findings(), []
    unidev.zeros(1, device=gpu)
    memcpy = _cuda_memcpy()
    sizes = SIZES[:2] if setting.is_short else SIZES
    for size in sizes:
        values = np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8)
        host = unidev.array(values)
        there = unidev.copy_to(host, gpu)
        address = setting.backend.extents(there)[0].address
        target = np.empty_like(values)
        to_gpu = (
            _waited(host, gpu),
            partial(memcpy, address, values.ctypes.data, size, _TO_GPU),
        )
        to_host = (
            _waited(there, unidev.cpu()),
            partial(memcpy, target.ctypes.data, address, size, _TO_HOST),
        )
        for route, (ours, theirs) in (("to the GPU", to_gpu), ("to the host", to_host)):
            ours_s, theirs_s = _interleaved(ours, theirs)
            speeds = [f"{number_text(size / each / 1e9)} GB/s" for each in (ours_s, theirs_s)]
            rows.append((route, bytes_text(size), *speeds, number_text(ours_s / theirs_s)))
        found.expect(bool((target == values).all()), f"cudaMemcpy of {size} bytes gave others")
    found.table(
        "copy_to against cudaMemcpy, pageable memory, medians",
        ("route", "size", "copy_to", "cudaMemcpy", "time, as a ratio"),
        rows,
    )
    return found.outcome()


def _waited(x: Any, device: Any) -> Callable[[], object]:
    def call() -> None:
        kept = unidev.copy_to(x, device)
        unidev.synchronize(device)
        del kept

    return call


def _interleaved(ours: Callable[[], object], theirs: Callable[[], object]) -> tuple[float, float]:
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(TIMINGS):
        for kept, call in zip(times, (ours, theirs), strict=True):
            began = time.perf_counter()
            call()
            kept.append(time.perf_counter() - began)
    return median(times[0]), median(times[1])


def _cuda_memcpy() -> Callable[[int, int, int, int], None]:
    """The function of the CUDA runtime that the framework has loaded into this process.

    Raises:
        NotRunError: there is none, as in builds that contain it.
    """
    function = _runtime().cudaMemcpy
    function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    function.restype = ctypes.c_int

    def memcpy(target: int, source: int, size: int, kind: int) -> None:
        code = function(target, source, size, kind)
        if code:
            raise RuntimeError(f"cudaMemcpy failed with code {code}")

    return memcpy


def _runtime() -> ctypes.CDLL:
    """The CUDA runtime that is in the process's own scope, or else the one that was loaded."""
    own = ctypes.CDLL(None)
    if hasattr(own, "cudaMemcpy"):
        return own
    loaded = Path("/proc/self/maps")
    lines = loaded.read_text(encoding="utf-8").splitlines() if loaded.exists() else []
    names = sorted({line.split()[-1] for line in lines if "libcudart" in line})
    if not names:
        raise NotRunError("the framework has loaded no CUDA runtime of its own (libcudart)")
    return ctypes.CDLL(names[0])
