"""What unidev's calls cost where nothing, or next to nothing, is moved.

Against the framework's own call and, for PyTorch, against accelerate, array-api-compat and
Lightning Fabric where they are installed. ``pip install accelerate array-api-compat lightning-fabric``.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

from measure import Row, compare
from own_calls import own_calls
from table import main

import unidev

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STAY_AT_MOST = {"torch": 0.8, "paddle": 0.15, "mxnet": 1.1, "tensorflow": 0.02}


def rows_of(backend: str, spec: str) -> Iterator[Row]:
    """The rows of one backend."""
    device = unidev.as_device(spec)
    own = own_calls(backend)
    x = unidev.rand((2, 3), device=device)
    native = device.native
    name, stay = own.stay
    measured = compare(lambda: unidev.as_in_device(x, device), lambda: stay(x, native))
    yield Row(backend, "as_in_device, there", name, *measured, STAY_AT_MOST.get(backend))
    name, copy = own.copy
    measured = compare(lambda: unidev.copy_to(x, device), lambda: copy(x))
    yield Row(backend, "copy_to (2, 3)", name, *measured, None if backend == "numpy" else 1.3)
    if backend == "torch":
        yield from _torch_rows(device, x)
    if backend == "numpy":
        yield _import_row()


def _torch_rows(device: unidev.Device, x: Any) -> Iterator[Row]:
    import torch

    own = torch.cuda.device_count
    yield Row("torch", "try_gpu", "torch.cuda.device_count()", *compare(unidev.try_gpu, own), 0.5)
    tree = _batch(device)
    assert unidev.as_in_device(tree, device) is tree
    limits = {
        "accelerate": (0.35, 0.5),
        "array_api_compat": (0.25, None),
        "lightning_fabric": (None, None),
    }
    for name, (one, nested) in limits.items():
        if importlib.util.find_spec(name) is None:
            print(f"{name} is not installed, so not measured", file=sys.stderr)
            continue
        called, move = PEERS[name]()
        native = device.native
        measured = compare(lambda: unidev.as_in_device(x, device), lambda: move(x, native))  # noqa: B023
        yield Row("torch", "as_in_device, there", called, *measured, one)
        if name != "array_api_compat":  # it moves no containers
            measured = compare(
                lambda: unidev.as_in_device(tree, device),
                lambda: move(tree, native),  # noqa: B023
            )
            yield Row("torch", "the same, 11 nested tensors", called, *measured, nested)


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


def _import_row() -> Row:
    def importing(module: str) -> Callable[[], object]:
        code = f"import {module}"
        return lambda: subprocess.run([sys.executable, "-c", code], check=True)

    def bare() -> object:
        return subprocess.run([sys.executable, "-c", "pass"], check=True)

    # The interpreter's own start is no part of either import.
    times: dict[str, list[float]] = {"unidev": [], "numpy": [], "": []}
    calls = {"unidev": importing("unidev"), "numpy": importing("numpy"), "": bare}
    for _ in range(41):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - start)
    middle = {name: sorted(values)[len(values) // 2] for name, values in times.items()}
    ours, theirs = middle["unidev"] - middle[""], middle["numpy"] - middle[""]
    return Row("numpy", "import unidev", "import numpy", ours, theirs, ours / theirs, 0.5)


def _accelerate() -> tuple[str, Callable[[Any, Any], object]]:
    from accelerate.utils import send_to_device

    return "accelerate send_to_device", send_to_device


def _array_api_compat() -> tuple[str, Callable[[Any, Any], object]]:
    from array_api_compat import to_device

    return "array-api-compat to_device", to_device


def _fabric() -> tuple[str, Callable[[Any, Any], object]]:
    from lightning_fabric.utilities import move_data_to_device

    return "Fabric move_data_to_device", move_data_to_device


PEERS = {
    "accelerate": _accelerate,
    "array_api_compat": _array_api_compat,
    "lightning_fabric": _fabric,
}

if __name__ == "__main__":
    main(__doc__ or "", rows_of)
