"""The overhead of unidev's calls when little or nothing is moved.

They are compared with the framework's own call and, for PyTorch, with accelerate, array-api-compat
and Lightning Fabric, if installed: pip install accelerate array-api-compat lightning-fabric.
"""

from __future__ import annotations

import importlib
import statistics
import subprocess
import sys
import time
import timeit
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from measure import Row, compare, rounds_or
from own_calls import OWN_CALLS, VERBS
from program import lack_of, main

import unidev

if TYPE_CHECKING:
    from collections.abc import Iterator

TRACED_S = 25e-6
"""The most time that a trace may add to one operation."""
STAY_AT_MOST = {"torch": 0.9, "paddle": 0.15, "mxnet": 1.1, "tensorflow": 0.02, "jax": 0.02}
"""PyTorch's own takes 190 ns in C; a function in Python that looks into a dict takes 160."""


class Peer(NamedTuple):
    """Another library's no-op move, and the fraction of its time that unidev may take."""

    module: str
    function: str
    one_at_most: float | None
    nested_at_most: float | None
    takes_containers: bool = True


PEERS = [
    Peer("accelerate.utils", "send_to_device", 0.4, 0.5),
    Peer("array_api_compat", "to_device", 0.25, None, takes_containers=False),
    Peer("lightning_fabric.utilities", "move_data_to_device", None, None),
]


def rows_of(backend: str, spec: str) -> Iterator[Row | str]:
    """The rows of one backend."""
    device = unidev.as_device(spec)
    x = unidev.rand((2, 3), device=device)
    own = OWN_CALLS[backend]
    names: dict[str, Any] = {**VERBS, "x": x, "device": device, "native": device.native}
    exec(own.setup, names)
    stay = compare("as_in_device(x, device)", own.stay, names)
    yield Row(backend, "as_in_device, there", own.stay, *stay, STAY_AT_MOST.get(backend))
    copy = compare("copy_to(x, device)", own.copy, names)
    # PyTorch's also looks whether the storage covers the tensor, and Paddle's whether it is dense
    # and has memory, in Python. JAX's has arrived.
    limit = {"numpy": None, "torch": 1.6, "jax": 1.5, "paddle": 1.4}.get(backend, 1.3)
    yield Row(backend, "copy_to (2, 3)", own.copy, *copy, limit)
    yield _trace_row(backend, names)
    if backend == "torch":
        # Two questions of 150 ns: which backend is selected, and whether torch has GPUs by now.
        count = "torch.cuda.device_count()"
        yield Row(backend, "try_gpu", count, *compare("try_gpu()", count, names), 0.7)
        for peer in PEERS:
            yield from _peer_rows(peer, names)
    if backend == "numpy":
        yield _path_row(names)
        yield _import_row()


def _peer_rows(peer: Peer, names: dict[str, Any]) -> Iterator[Row | str]:
    if lack := lack_of(peer.module):
        yield lack
        return
    package = peer.module.partition(".")[0]
    names = {
        **names,
        "peer": getattr(importlib.import_module(peer.module), peer.function),
        "tree": _batch(names["device"]),
    }
    called = f"{package} {peer.function}"
    one = compare("as_in_device(x, device)", "peer(x, native)", names)
    yield Row("torch", "as_in_device, there", called, *one, peer.one_at_most)
    if peer.takes_containers:
        nested = compare("as_in_device(tree, device)", "peer(tree, native)", names)
        yield Row("torch", "the same, 11 nested tensors", called, *nested, peer.nested_at_most)


def _batch(device: unidev.Device) -> dict[str, Any]:
    def tensor() -> Any:
        return unidev.zeros((2, 3), device=device)

    return {
        "inputs": {"ids": tensor(), "mask": tensor(), "kinds": tensor()},
        "pixels": [tensor(), tensor(), tensor()],
        "boxes": (tensor(), tensor()),
        "label": tensor(),
        "weights": {"loss": tensor(), "aux": tensor()},
        "name": "first",
    }


def _trace_row(backend: str, names: dict[str, Any]) -> Row:
    def seconds() -> float:
        return min(timeit.repeat("x + x", globals=names, number=500, repeat=15)) / 500

    outside = seconds()
    with unidev.trace_transfers():
        more = seconds() - outside
    return Row(
        backend, "x + x in a trace, more than outside", f"{TRACED_S * 1e6:.0f} µs",
        more, TRACED_S, more / TRACED_S, 1.0,
    )  # fmt: skip


def _path_row(names: dict[str, Any]) -> Row:
    batch = _batch(names["device"])
    names = {**names, "plain": batch, "tree": {**batch, "path": Path("image.png")}}
    ours = "as_in_device(tree, device)"
    without = compare(ours, "as_in_device(plain, device)", names)
    return Row("numpy", "as_in_device, a Path in it", "the same without it", *without, 2.0)


def _import_row() -> Row:
    # The start of the interpreter does not count for either import.
    programs = {"unidev": "import unidev", "numpy": "import numpy", "nothing": "pass"}
    times: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(rounds_or(41)):
        for name, program in programs.items():
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", program], check=True)
            times[name].append(time.perf_counter() - start)
    middle = {name: statistics.median(values) for name, values in times.items()}
    ours, theirs = middle["unidev"] - middle["nothing"], middle["numpy"] - middle["nothing"]
    return Row("numpy", "import unidev", "import numpy", ours, theirs, ours / theirs, 0.5)


if __name__ == "__main__":
    main(__doc__ or "", rows_of)
