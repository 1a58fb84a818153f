"""The cost of placing, training and saving models: times as ratios, and peak memory.

Moves are between the CPU and ``gpu:0``, which is simulated (UNIDEV_SIMULATE=1) unless
UNIDEV_SIMULATE is 0. Simulated devices use the host's memory, so these times are those of copies on
the host.
"""

from __future__ import annotations

import math
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from measure import Row, compare, peak_bytes, sized
from own_calls import OWN_CALLS, VERBS
from own_models import OWN_COMPILED, OWN_MODEL_CALLS, OWN_SENDS, OWN_TREE_STEPS
from program import main

import unidev
from unidev import nn
from unidev.system.wording import bytes_text

if TYPE_CHECKING:
    from collections.abc import Iterator

WIDTH, DEPTH = sized(3162, 100), 10
"""DEPTH dense layers of WIDTH x WIDTH: 100 million parameters; in a trial, a thousandth."""
PARAMETERS = sized("100 million", "100 thousand")
PARAMETERS_BYTES = WIDTH * WIDTH * DEPTH * 4
SMALL_AT_MOST = {"tensorflow": 7.0, "torch": 3.2}
"""Times the framework's own move; Keras has none: a copy of its arrays is one of four operations
that a variable takes. In both, ``place`` looks for what layers keep without registering it, and can
go back; that takes 10 to 100 µs for a layer."""
MOVE_AT_MOST = {"mxnet": 1.3}
"""``reset_ctx`` allocates gradients, ``place`` moves them."""
SAVE_AT_MOST = {"paddle": 1.5}
"""The file has the weights of ``Linear`` as other frameworks do, Paddle transposed."""


def rows_of(backend: str, spec: str) -> Iterator[Row | str]:
    """The rows of one backend."""
    if backend not in OWN_MODEL_CALLS:
        yield "has no models of its own"
        return
    yield from _training_rows(backend, spec)
    yield from _tree_rows(backend)
    yield from _sending_rows(backend)
    yield from _moving_rows(backend)
    yield from _small_rows(backend)
    yield from _saving_rows(backend)


def _training_rows(backend: str, spec: str) -> Iterator[Row]:
    device = unidev.as_device(spec)
    with device:
        names: dict[str, Any] = {
            **VERBS,
            "net": _digits_net(),
            "own_net": _digits_net(),
            "X": unidev.rand((64, 1, 8, 8)),
            "y": unidev.array([n % 10 for n in range(64)]),
        }
    exec(OWN_MODEL_CALLS[backend].setup, names)
    functional = nn.functional

    def loss_of(net: Any, images: Any, labels: Any) -> Any:
        return functional.softmax_cross_entropy(net(images), labels)

    names["step"] = unidev.value_and_grad(loss_of)
    ours = "loss, gradients = step(net, X, y)\nsgd(net, gradients, lr=0.1)\nsynchronize()"
    times = compare(ours, "own_step()\nsynchronize()", names)
    yield Row(backend, "value_and_grad + sgd, digits net, batch 64", "by hand", *times, 1.05)
    if backend in OWN_COMPILED:
        exec(OWN_COMPILED[backend], names)
        both = ("our_compiled(net, X, y)", "own_compiled(own_net, X, y)")
        times = compare(*(f"{each}\nsynchronize()" for each in both), names)
        yield Row(backend, "the same, compiled", "by hand, compiled", *times, 1.05)


def _tree_rows(backend: str) -> Iterator[Row]:
    """Steps of a tree of eight arrays, which are much shorter than those of a module."""
    if backend not in OWN_TREE_STEPS:
        return
    names = {**VERBS, "here": unidev.cpu().native}
    exec(OWN_CALLS[backend].setup, names)
    exec(OWN_TREE_STEPS[backend], names)
    for what, function, limit in (("eager", "step", 1.05), ("compiled", "compiled", 1.02)):
        both = (f"{whose}_{function}(tree, X, y)" for whose in ("our", "own"))
        times = compare(*(f"{each}[0].block_until_ready()" for each in both), names)
        yield Row(backend, f"the same step of a tree, {what}", "by hand", *times, limit)


def _sending_rows(backend: str) -> Iterator[Row]:
    if backend not in OWN_SENDS:
        return
    here, there = unidev.cpu(), unidev.gpu(0)
    names = {
        **VERBS, "x": unidev.rand(16, device=here), "there": there.native, "gpu": there,
    }  # fmt: skip
    exec(OWN_CALLS[backend].setup, names)
    own = OWN_SENDS[backend]
    times = compare("copy_to(x, gpu)", own, names)
    yield Row(backend, "copy_to of 64 bytes, to another device", own, *times, 1.2)


def _digits_net() -> Any:
    unidev.seed(1)
    return nn.sequential(
        nn.conv2d(1, 16, 3, padding=1), nn.tanh(), nn.avg_pool2d(2),
        nn.conv2d(16, 32, 3, padding=1), nn.tanh(), nn.avg_pool2d(2),
        nn.flatten(), nn.dense(32 * 2 * 2, 64), nn.tanh(), nn.dense(64, 10),
    )  # fmt: skip


def _moving_rows(backend: str) -> Iterator[Row]:
    own = OWN_MODEL_CALLS[backend]
    here, there = unidev.cpu(), unidev.gpu(0)
    names: dict[str, Any] = {
        **VERBS, "net": _large(), "here": here.native, "there": there.native, "gpu": there,
        "other": _large(), "own_net": _digits_net(),
    }  # fmt: skip
    exec(own.setup, names)
    times = compare(
        "place(net, gpu); place(net, 'cpu'); synchronize()",
        f"{own.move}; synchronize()",
        names,
        rounds=9,
    )
    limit = MOVE_AT_MOST.get(backend, 1.1)
    yield Row(backend, f"place {PARAMETERS}, there and back", own.moved_by, *times, limit)
    peak = peak_bytes(lambda: unidev.place(names["net"], there))
    size = _nbytes(names["net"])
    yield Row(backend, "peak while placing", "its size", peak, size, peak / size, 1.05, "bytes")
    if backend == "torch":
        many = nn.sequential(*(nn.dense(2, 2) for _ in range(500)))
        names |= {"many": many, "cpu_device": here}
        stay = compare("place(many, cpu_device)", "many.to(here)", names)
        yield Row(backend, "place 1,000 parameters, there", "Module.to", *stay, 0.3)


def _small_rows(backend: str) -> Iterator[Row]:
    """Models whose bytes take less time than everything else."""
    own, there = OWN_MODEL_CALLS[backend], unidev.gpu(0)
    for what, make in (("digits net", _digits_net), ("60 layers, 60 KB", _deep_net)):
        names: dict[str, Any] = {
            **VERBS, "net": make(), "other": make(), "own_net": _digits_net(),
            "here": unidev.cpu().native, "there": there.native, "gpu": there,
        }  # fmt: skip
        exec(own.setup, names)
        ours = "place(net, gpu); place(net, 'cpu'); synchronize()"
        times = compare(ours, f"{own.move}; synchronize()", names)
        limit = SMALL_AT_MOST.get(backend, 1.2)
        yield Row(backend, f"place {what}, there and back", own.moved_by, *times, limit)


def _deep_net() -> Any:
    blocks = ((nn.conv2d(8, 8, 3, padding=1), nn.batch_norm(8), nn.relu()) for _ in range(20))
    return nn.sequential(*(layer for block in blocks for layer in block))


def _saving_rows(backend: str) -> Iterator[Row]:
    own = OWN_MODEL_CALLS[backend]
    with tempfile.TemporaryDirectory() as folder:
        names: dict[str, Any] = {
            **VERBS, "net": _large(), "other": _large(), "own_net": _digits_net(),
            "path": str(Path(folder) / "own.safetensors"),
            "ours": Path(folder) / "ours.safetensors", "os": os,
        }  # fmt: skip
        exec(own.setup, names)
        flush = "\nfile = os.open(path, os.O_RDONLY); os.fsync(file); os.close(file)"
        save = "save_parameters(net, ours)"
        flushed = compare(save, own.save + flush, names, rounds=5)
        what = f"save_parameters {bytes_text(PARAMETERS_BYTES)}"
        limit = SAVE_AT_MOST.get(backend, 1.1)
        yield Row(backend, what, "safetensors, flushed", *flushed, limit)
        # The old values, until all new ones have arrived, and one tensor: less than two files.
        peak = peak_bytes(lambda: unidev.load_parameters(names["net"], names["ours"]))
        share = peak / PARAMETERS_BYTES
        yield Row(
            backend, "peak while loading", "the file", peak, PARAMETERS_BYTES, share, 2.0, "bytes"
        )


def _nbytes(net: Any) -> int:
    """The bytes of a float32 net, with its gradients: Gluon allocates them from the beginning."""
    tensors = unidev.active_backend().models.tensors(net).values()
    return sum(math.prod(x.shape) * 4 for x in tensors)


def _large() -> Any:
    return nn.sequential(*(nn.dense(WIDTH, WIDTH, bias=False) for _ in range(DEPTH)))


if __name__ == "__main__":
    os.environ.setdefault("UNIDEV_SIMULATE", "1")
    main(__doc__ or "", rows_of)
