"""How costs grow: verbs with the number of tensors, a trace with the number of transfers.

In CPU time, with two simulated GPUs: the time of each tensor in a large tree against that in a
small one. It stays the same where the whole grows as a straight line; a constant part makes it
less. PaddlePaddle's allocator, as its simulated GPUs need it, looks at all blocks to free one: a
square. A long trace must not take much memory, however many transfers it has.
"""

from __future__ import annotations

import resource
import statistics
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from measure import Row, rounds_or, sized
from program import main

import unidev
from unidev.contract import Unsupported
from unidev.parallel.exchange.trees import Tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FEW, MANY = sized((100, 10_000), (10, 100))
AT_MOST = 5.0
"""A line with a constant part stays below it; a square is at 100."""
TRANSFERS = sized(1_000_000, 1_000)
TRACE_BYTES = 50e6


def rows_of(backend: str, _: str) -> Iterator[Row]:
    """The rows of one backend."""
    unidev.simulate(2)
    with tempfile.TemporaryDirectory() as folder:
        if backend == "numpy":  # first: trees leave memory behind, which a trace would fill
            yield _trace_row(backend, Path(folder))
        few, many = (
            {what: _seconds(use) / count for what, use in _steps(count, Path(folder)).items()}
            for count in (FEW, MANY)
        )
        for what, each in many.items():
            ratio = each / few[what]
            yield Row(backend, f"{what}, a tensor of {MANY:,}", f"of {FEW:,}", each, few[what],
                      ratio, AT_MOST)  # fmt: skip


def _trace_row(backend: str, folder: Path) -> Row:
    """The memory of a trace and of writing its files."""
    x = unidev.ones((), device="gpu:0")
    with unidev.trace_transfers():
        x.item()
    before = _peak_bytes()
    with unidev.trace_transfers() as trace:
        for _ in range(TRANSFERS):
            x.item()
    trace.to_json(folder / "trace.json")
    trace.to_chrome_trace(folder / "chrome.json")
    assert str(trace).startswith(f"{TRANSFERS:,} transfers")
    grown = _peak_bytes() - before
    what = f"memory of a trace of {TRANSFERS:,} transfers"
    return Row(backend, what, "50 MB", grown, TRACE_BYTES, grown / TRACE_BYTES, 1.0, "bytes")


def _peak_bytes() -> int:
    """The most memory that this process has ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _seconds(use: Callable[[], Any]) -> float:
    """The median CPU time of a few calls, after one that may import something."""
    use()
    took = []
    for _ in range(rounds_or(3)):
        began = time.process_time()
        use()
        took.append(time.process_time() - began)
    return statistics.median(took)


def _traced(tree: dict[str, Any]) -> str:
    """A trace of a copy, with its table."""
    with unidev.trace_transfers() as trace:
        unidev.copy_to(tree, "gpu:0")
    return str(trace)


def _train(net: Any, x: Any) -> None:
    """A step on two devices; the layers grow deeper, so their work is a straight line as well."""
    step = unidev.value_and_grad(lambda net, x: unidev.nn.functional.mean_squared_error(net(x), x))
    _, gradients = step(net, x)
    unidev.sgd(net, gradients, lr=0.0)


def _steps(count: int, folder: Path) -> dict[str, Callable[[], Any]]:
    """The measured operations by name, on a tree or a net of ``count`` tensors or layers."""
    tree = {f"layer.{number}.weight": unidev.ones((2, 3)) for number in range(count)}
    pair = [unidev.copy_to(tree, device) for device in ("gpu:0", "gpu:1")]
    file, model = folder / f"{count}.safetensors", _model_of(count)
    return {
        "copy_to": lambda: unidev.copy_to(tree, "gpu:0"),
        "check_same_device": lambda: unidev.check_same_device(tree=tree),
        "split_batch": lambda: unidev.split_batch(tree, ["gpu:0", "gpu:1"]),
        "all_reduce": lambda: unidev.all_reduce(pair),
        "all_reduce of a new tree in a run": lambda: Tree(tree).lines(),
        "place": lambda: [unidev.place(model, device) for device in ("cpu", "gpu:0")],
        "save_parameters": lambda: unidev.save_parameters(model, file),
        "load_parameters": lambda: unidev.load_parameters(model, file),
        "prefetch of 3 batches": lambda: list(unidev.prefetch([tree] * 3, "gpu:0")),
        "trace_transfers": partial(_traced, tree),
        **_training(model),
    }


def _model_of(count: int) -> Any:
    """A model of ``count`` layers on gpu:0, each with one parameter."""
    with unidev.gpu():
        net = unidev.nn.sequential(*(unidev.nn.dense(2, 2, bias=False) for _ in range(count)))
        net(unidev.ones((4, 2)))  # makes the parameters
    return unidev.place(net, "gpu:0")


def _training(net: Any) -> dict[str, Callable[[], Any]]:
    """Training steps, on one device and on two."""
    if isinstance(unidev.active_backend().autograd, Unsupported):
        return {}
    x = unidev.ones((4, 2), device="gpu:0")
    parallel = unidev.DataParallel(net, ["gpu:0", "gpu:1"])
    return {
        "value_and_grad and sgd": partial(_train, net, x),
        "the same in DataParallel": partial(_train, parallel, x),
    }


if __name__ == "__main__":
    main(__doc__ or "", rows_of)
