"""Batches: containers that are there already, host arrays that are put on a device, reading ahead.

For PyTorch, containers are compared with accelerate and Lightning Fabric, if these are installed,
and transformers' encodings, if that is.
"""

from __future__ import annotations

import dataclasses
import importlib
import statistics
import time
from typing import TYPE_CHECKING, Any

import numpy as np
from measure import Row, compare, rounds_or, sized
from own_calls import OWN_CALLS, VERBS
from program import lack_of, main

import unidev

if TYPE_CHECKING:
    from collections.abc import Iterator

KIB = 2**10
ARRAYS = 20
STEP_S, STEPS = 0.02, sized(15, 2)
PEERS = {"accelerate.utils": "send_to_device", "lightning_fabric.utilities": "move_data_to_device"}


@dataclasses.dataclass
class Batch:
    """Two tensors and a note."""

    x: Any
    y: Any
    note: str = "batch"


def rows_of(backend: str, spec: str) -> Iterator[Row | str]:
    """The rows of one backend."""
    device = unidev.as_device(spec)
    if backend == "torch":
        yield from _container_rows(device)
    own = OWN_CALLS[backend]
    for size, limit in ((64 * KIB, 2.0), (sized(4096, 128) * KIB, 1.1)):
        arrays = [np.random.default_rng(0).random(size // 4, np.float32) for _ in range(ARRAYS)]
        names: dict[str, Any] = {"unidev": unidev, "arrays": arrays, "device": device}
        exec(own.setup, names)
        ours, theirs = (
            f"{each}; unidev.synchronize(device)"
            for each in ("unidev.device_put(arrays, device)", f"[{own.put} for a in arrays]")
        )
        what = f"device_put, {ARRAYS} arrays of {size // KIB:,} KiB"
        yield Row(backend, what, own.put, *compare(ours, theirs, names, 15), limit)
    yield from _prefetch_rows(backend, device)


def _container_rows(device: unidev.Device) -> Iterator[Row | str]:
    yield from filter(None, map(lack_of, (*PEERS, "transformers")))
    x = unidev.rand((2, 3), device=device)
    batches: dict[str, Any] = {"a dataclass": Batch(x, x)}
    if not lack_of("transformers"):
        encoding = importlib.import_module("transformers").BatchEncoding
        batches["a BatchEncoding"] = encoding({"input_ids": x, "attention_mask": x, "labels": x})
    for what, batch in batches.items():
        assert unidev.as_in_device(batch, device) is batch
        names = {**VERBS, "batch": batch, "device": device, "native": device.native}
        for module, function in PEERS.items():
            if lack_of(module):
                continue
            if what == "a dataclass" and function == "send_to_device":
                continue  # which does not look into it
            names[function] = getattr(importlib.import_module(module), function)
            times = compare("as_in_device(batch, device)", f"{function}(batch, native)", names)
            yield Row("torch", f"as_in_device, {what} that is there", function, *times, 0.5)


def _prefetch_rows(backend: str, device: unidev.Device) -> Iterator[Row]:
    """A loader that sleeps as long as the step, read ahead and not, against the sleep alone."""

    def loader() -> Iterator[Any]:
        for _ in range(STEPS):
            time.sleep(STEP_S)
            yield np.zeros((64, 64), np.float32)

    def seconds(batches: Any) -> float:
        start = time.perf_counter()
        for _ in batches:
            time.sleep(STEP_S)
        return (time.perf_counter() - start) / STEPS

    list(unidev.prefetch(loader(), device))
    ahead, plain = (
        statistics.median(seconds(read()) for _ in range(rounds_or(5)))
        for read in (
            lambda: unidev.prefetch(loader(), device),
            lambda: (unidev.device_put(x, device) for x in loader()),
        )
    )
    what = "a step whose loader takes as long"
    against = f"{STEP_S * 1000:g} ms"
    yield Row(backend, f"{what}, prefetch", against, ahead, STEP_S, ahead / STEP_S, 1.15)
    yield Row(backend, f"{what}, without", against, plain, STEP_S, plain / STEP_S, None)


if __name__ == "__main__":
    main(__doc__ or "", rows_of)
