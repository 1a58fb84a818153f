"""How verbs grow with the number of tensors: a straight line keeps the time of each tensor.

``python benchmarks/growth.py [MOST]``, on the backend in UNIDEV_BACKEND, with two simulated GPUs.
With ``--plot FILE`` an image shows instead how exchanges grow with the number of workers.
Prints microseconds of CPU a tensor, for trees of 100, 1,000 and 10,000 small tensors, up to MOST.
PaddlePaddle's allocator, as its simulated GPUs need it, looks at all blocks to free one: a square.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import unidev
from unidev.contract import Unsupported
from unidev.distributed.exchange.trees import Tree

if TYPE_CHECKING:
    from collections.abc import Callable

COUNTS = (100, 1_000, 10_000)
ROUNDS = 3
MOST = 5.0
"""Times the least: a line with a constant part stays below it, a square is at 100."""


def microseconds(use: Callable[[], Any]) -> float:
    """The median CPU time of a few calls, after one that may import something."""
    use()
    took = []
    for _ in range(ROUNDS):
        began = time.process_time()
        use()
        took.append(time.process_time() - began)
    return statistics.median(took) * 1e6


def traced(tree: dict[str, Any]) -> str:
    """A trace of a copy, with its table."""
    with unidev.trace_transfers() as trace:
        unidev.copy_to(tree, "gpu:0")
    return str(trace)


def train(net: Any, x: Any) -> None:
    """A step on two devices; the layers grow deeper, so their work is a straight line as well."""
    step = unidev.value_and_grad(lambda net, x: unidev.nn.functional.mean_squared_error(net(x), x))
    _, gradients = step(net, x)
    unidev.sgd(net, gradients, lr=0.0)


def steps(count: int, folder: Path) -> dict[str, Callable[[], Any]]:
    """The measured operations by name, on a tree or a net of ``count`` tensors or layers."""
    tree = {f"layer.{number}.weight": unidev.ones((2, 3)) for number in range(count)}
    pair = [unidev.copy_to(tree, device) for device in ("gpu:0", "gpu:1")]
    file, model = folder / f"{count}.safetensors", model_of(count)
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
        "trace_transfers": partial(traced, tree),
        **training(model),
    }


def model_of(count: int) -> Any:
    """A model of ``count`` layers on gpu:0, each with one parameter."""
    with unidev.gpu():
        net = unidev.nn.sequential(*(unidev.nn.dense(2, 2, bias=False) for _ in range(count)))
        net(unidev.ones((4, 2)))  # makes the parameters
    return unidev.place(net, "gpu:0")


def training(net: Any) -> dict[str, Callable[[], Any]]:
    """Training steps, on one device and on two."""
    if isinstance(unidev.active_backend().autograd, Unsupported):
        return {}
    x = unidev.ones((4, 2), device="gpu:0")
    parallel = unidev.DataParallel(net, ["gpu:0", "gpu:1"])
    return {
        "value_and_grad and sgd": partial(train, net, x),
        "the same in DataParallel": partial(train, parallel, x),
    }


def main() -> int:
    """Print the table; 1 if something grows faster than a straight line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("most", type=int, nargs="?", default=COUNTS[-1])
    parser.add_argument("--plot", type=Path, metavar="FILE")
    options = parser.parse_args()
    if options.plot is not None:
        from growth_plot import plot

        plot(options.plot)
        return 0
    unidev.simulate(2)
    counts = [count for count in COUNTS if count <= options.most]
    with tempfile.TemporaryDirectory() as folder:
        found = [
            {what: microseconds(use) / count for what, use in steps(count, Path(folder)).items()}
            for count in counts
        ]
    print(f"{'µs of CPU a tensor':36}", *(f"{count:>8,}" for count in counts))
    for what in found[0]:
        print(f"{what:36}", *(f"{each[what]:8.1f}" for each in found))
    steep = [what for what in found[0] if found[-1][what] > MOST * found[0][what]]
    if steep:
        print(f"more than {MOST:.0f} times as long a tensor: {', '.join(steep)}")
    return 1 if steep else 0


if __name__ == "__main__":
    sys.exit(main())
