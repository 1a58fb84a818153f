"""One picture of how costs grow: workers, checkpoints' names, trees, simulated devices.

Both axes are logarithmic: a cost that grows as a straight line has the slope of the dotted one. The
frameworks' own ways stand beside unidev's, on PyTorch. It takes some minutes, in which nothing else
should run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import psutil
from measure import rounds_or, sized
from program import ended_by, lack_of, machine, parser_of

import unidev
from unidev.system.host.ports import free_ports
from unidev.system.progress import progress

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

WORKERS = sized((1, 2, 4, 8, 16, 32), (2,))
NAMES = sized((10, 100, 1_000, 10_000, 100_000), (10, 100))
TENSORS = sized((1, 10, 100, 1_000, 10_000), (1, 10))
DEVICES = sized((1, 2, 4, 8, 16, 32, 64), (2,))
STEPS = 20
MANY_DEVICES = """
import sys, time
import unidev
start = time.time()
unidev.simulate(int(sys.argv[1]))
x = unidev.ones(1000)
for device in unidev.try_all_gpus():
    unidev.copy_to(x, device)
print(time.time() - start)
"""


class Curve(NamedTuple):
    """Values by count; those of unidev are drawn through, the others dashed."""

    panel: str
    label: str
    values: dict[int, float]


# -- workers -----------------------------------------------------------------------------------


def own_steps() -> tuple[float, float, float]:
    """What a worker of ``unidev.run`` measures."""
    group = unidev.group()
    return _steps(group.rank, lambda gradients: group.all_reduce(gradients, in_place=True))


def their_steps(rank: int) -> None:
    """What a process of PyTorch's own measures, as a line of JSON."""
    import torch.distributed as dist

    dist.init_process_group("gloo")
    found = _steps(rank, lambda gradients: [dist.all_reduce(each) for each in gradients])
    sys.stdout.write(json.dumps(found) + "\n")  # one piece, for all share the pipe
    sys.stdout.flush()
    dist.destroy_process_group()


def _steps(rank: int, exchange: Callable[[Any], object]) -> tuple[float, float, float]:
    """When the first step was made, the bytes of this process, and steps a second."""
    import torch

    net = torch.nn.Linear(8, 8)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def step() -> None:
        optimizer.zero_grad()
        net(torch.ones(2, 8)).sum().backward()
        exchange([each.grad for each in net.parameters()])
        optimizer.step()

    step()
    at, start = time.time(), time.perf_counter()
    for _ in range(STEPS):
        step()
    seconds = time.perf_counter() - start
    processes = [os.getpid(), *[os.getppid()] * (rank == 0)]  # what has started them counts, too
    nbytes = sum(psutil.Process(each).memory_full_info().pss for each in processes)
    exchange([torch.ones(1)])  # nobody ends, and gives memory back, before all have looked
    return at, nbytes, STEPS / seconds


def _by_run(count: int, how: str) -> list[Any]:
    return unidev.run(own_steps, workers=count, backend="torch", start=how)


def _by_torchrun(count: int) -> list[Any]:
    own = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={count}"]
    return _lines([*own, f"--master-port={free_ports([1])[0][0]}", __file__, "--worker"])


def _by_spawn(count: int) -> list[Any]:
    return _lines([sys.executable, __file__, "--spawn", str(count)])


def _lines(command: Sequence[str]) -> list[Any]:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def _spawned(rank: int, count: int, port: int) -> None:
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(count), MASTER_ADDR="127.0.0.1")
    os.environ["MASTER_PORT"] = str(port)
    their_steps(rank)
    os._exit(0)  # at an ordinary end, gloo's threads abort the process now and then (torch 2.13)


def _spawn(count: int) -> None:
    import torch.multiprocessing as mp

    mp.spawn(_spawned, (count, free_ports([1])[0][0]), nprocs=count)


def of_workers() -> list[Curve]:
    """Seconds to the first step, bytes, and steps a second, by the way of starting."""
    ways: dict[str, Callable[[int], list[Any]]] = {
        "unidev.run": partial(_by_run, how="fork"),
        'unidev.run, start="spawn"': partial(_by_run, how="spawn"),
        "torchrun": _by_torchrun,
        "mp.spawn": _by_spawn,
    }
    panels = "seconds to the first step", "MiB of all processes", "milliseconds of a step"
    curves = [Curve(panel, way, {}) for way in ways for panel in panels]
    for count in WORKERS:
        for at, use in enumerate(ways.values()):
            start = time.time()
            ends, sizes, speeds = zip(*use(count), strict=True)
            found = max(ends) - start, sum(sizes) / 2**20, 1e3 / min(speeds)
            for curve, value in zip(curves[3 * at :], found, strict=False):
                curve.values[count] = value
    return curves


# -- one process -------------------------------------------------------------------------------


def of_one_process() -> list[Curve]:
    """Seconds of a checkpoint by its names, and of a copy by a tree's tensors."""
    import torch

    found = []
    with tempfile.TemporaryDirectory() as folder:
        own, theirs = f"{folder}/own.safetensors", f"{folder}/theirs.pt"

        def by_unidev(net: Any) -> None:
            unidev.save_parameters(net, own)
            unidev.load_parameters(net, own)

        def by_torch(net: Any) -> None:
            torch.save(net.state_dict(), theirs)
            net.load_state_dict(torch.load(theirs))

        for label, use in ("unidev's save, load", by_unidev), ("torch's", by_torch):
            values = {}
            for count in NAMES:
                net = torch.nn.ParameterDict({f"p{n}": torch.zeros(1) for n in range(count)})
                values[count] = _seconds(partial(use, net))
            found.append(Curve("seconds, by names in a checkpoint", label, values))
    trees = {count: [torch.zeros(10) for _ in range(count)] for count in TENSORS}
    copies = {
        "copy_to": lambda tree: unidev.copy_to(tree, "cpu:0"),
        "a loop of clone": lambda tree: [x.clone() for x in tree],
    }
    for label, use in copies.items():
        values = {count: _seconds(partial(use, tree)) for count, tree in trees.items()}
        found.append(Curve("seconds, by tensors in a tree", label, values))
    return found


def _seconds(use: Callable[[], object]) -> float:
    """The least of some rounds: another process makes one longer, and nothing makes it shorter."""
    found = []
    for _ in range(rounds_or(3)):
        start = time.perf_counter()
        use()
        found.append(time.perf_counter() - start)
    return min(found)


def of_devices() -> list[Curve]:
    """Seconds to have so many simulated GPUs, with a tensor on each."""
    found = []
    for backend in ("numpy", "torch"):
        values = {}
        for count in (1, *DEVICES):  # once more: the first one may build torch's
            command = [sys.executable, "-c", MANY_DEVICES, str(count)]
            environment = {**os.environ, "UNIDEV_BACKEND": backend}
            values[count] = float(subprocess.check_output(command, env=environment))
        found.append(Curve("seconds, by simulated GPUs", f"simulate, copy_to: {backend}", values))
    return found


# -- the picture -------------------------------------------------------------------------------


def draw(curves: Sequence[Curve], path: Path) -> None:
    """A panel for each cost."""
    from matplotlib.figure import Figure

    panels = list(dict.fromkeys(each.panel for each in curves))
    figure = Figure(figsize=(12, 7), layout="constrained")
    for axes, panel in zip(figure.subplots(2, 3).flat, panels, strict=True):
        shown = [each for each in curves if each.panel == panel]
        for curve in shown:
            is_own = any(word in curve.label for word in ("unidev", "copy_to"))
            axes.loglog(*_points(curve), "-o" if is_own else "--x", label=curve.label)
        counts, values = _points(shown[0])
        axes.loglog(counts, [values[0] * n / counts[0] for n in counts], ":", color="grey")
        axes.set(title=panel, xticks=counts, xticklabels=[f"{n:,}" for n in counts])
        axes.minorticks_off()
        axes.legend(fontsize="small")
    figure.suptitle(machine(), fontsize="small")
    figure.savefig(path, metadata={"Date": None})


def _points(curve: Curve) -> tuple[list[int], list[float]]:
    return list(curve.values), list(curve.values.values())


def main() -> int:
    """Measure, draw, and print the figures."""
    parser = parser_of(__doc__ or "")
    parser.add_argument("picture", type=Path, nargs="?", help="an .svg or a .png to write")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--spawn", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        their_steps(int(os.environ["RANK"]))
        return 0
    if options.spawn:
        _spawn(options.spawn)
        return 0
    for lack in filter(None, map(lack_of, ("torch", "unidev_torch", "matplotlib"))):
        print(lack)
        return 0
    if options.picture is None:
        parser.error("the picture's name is missing: docs/growth.svg")
    if options.rounds == 1 and "BENCH_ROUNDS" not in os.environ:  # read as modules are imported
        os.environ["BENCH_ROUNDS"] = "1"
        os.execv(sys.executable, [sys.executable, *sys.argv])
    with progress("measuring how costs grow"):
        curves = [*of_workers(), *of_one_process(), *of_devices()]
    draw(curves, options.picture)
    for curve in curves:
        points = [f"{count:,}: {value:.3g}" for count, value in curve.values.items()]
        print(curve.panel, curve.label, *points, sep=" | ")
    return 0


if __name__ == "__main__":
    ended_by(main)
