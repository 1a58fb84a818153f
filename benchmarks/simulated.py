"""What a simulated GPU of PyTorch costs beside the CPU: operations, a step, loading, building.

``python benchmarks/simulated.py``, once for each name: ``sim``, and ``cuda`` on the CPU build. Both
compute with the CPU's own kernels, so the ratio is what the simulation adds.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Any

from measure import Row, compare
from table import print_table

import unidev  # before torch, which looks for `cuda` while it is imported

if TYPE_CHECKING:
    from collections.abc import Iterator

OPERATIONS = {
    "x + x": "{x} + {x}",
    "x.sum()": "{x}.sum()",
    "x @ x.T": "{x} @ {x}.T",
    "cat of two": "cat(({x}, {x}))",
    "relu": "relu({x})",
}
TINY_AT_MOST, STEP_AT_MOST = 2.5, 1.15
LOAD_AT_MOST_S, BUILD_AT_MOST_S = 0.3, 30.0
STARTS = 7


def rows_of(name: str) -> Iterator[Row]:
    """The rows of one name; its devices are simulated in this process."""
    device = unidev.gpu(1).native
    import torch

    torch.set_num_threads(1)  # threads of the machine's few cores would wait for one another
    here = torch.ones((2, 3))
    names: dict[str, Any] = {**vars(torch), "here": here, "there": here.to(device)}
    for what, pattern in OPERATIONS.items():
        ours, theirs = pattern.format(x="there"), pattern.format(x="here")
        row = compare(ours, theirs, names)
        yield Row(name, what, "the same on the CPU", *row, TINY_AT_MOST)
    steps = {"ours": step_on(device), "theirs": step_on(torch.device("cpu"))}
    row = compare("ours()", "theirs()", steps)
    yield Row(name, "a step, MLP 784, 256, 10", "the same on the CPU", *row, STEP_AT_MOST)


def step_on(device: Any) -> Any:
    """One step of SGD at batch 256."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10)).to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    x, y = torch.randn(256, 784).to(device), torch.randint(0, 10, (256,)).to(device)

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()

    return step


def starts_of(name: str) -> Iterator[Row]:
    """Starting Python with the devices, against starting it without; and building the library."""
    program = "import unidev; unidev.set_backend('torch'); unidev.try_all_gpus()"
    with tempfile.TemporaryDirectory() as cache:
        built = seconds(program, settings(name) | {"UNIDEV_CACHE": cache})
        took = [
            (seconds(program, settings(name) | {"UNIDEV_CACHE": cache}), seconds(program, {}))
            for _ in range(STARTS)
        ]
    ours, theirs = (statistics.median(each) for each in zip(*took, strict=True))
    added = max(0.0, statistics.median(a - b for a, b in took))  # less than nothing is noise
    limit = f"{LOAD_AT_MOST_S:g} s"
    yield Row(name, "start, more than without", limit, added, LOAD_AT_MOST_S,
              added / LOAD_AT_MOST_S, 1)  # fmt: skip
    yield Row(name, "start with 2 GPUs", "without", ours, theirs, ours / theirs, None)
    building = built - ours
    yield Row(name, "building, once", f"{BUILD_AT_MOST_S:g} s", building, BUILD_AT_MOST_S,
              building / BUILD_AT_MOST_S, 1)  # fmt: skip


def settings(name: str) -> dict[str, str]:
    """The variables that give a process two such GPUs."""
    named = {} if name == "sim" else {"UNIDEV_SIMULATE_AS": name}
    return {"UNIDEV_SIMULATE": "2", **named}


def seconds(program: str, variables: dict[str, str]) -> float:
    """How long a Python with these variables takes for ``program``."""
    began = time.perf_counter()
    run([sys.executable, "-c", program], variables)
    return time.perf_counter() - began


def run(command: list[str], variables: dict[str, str]) -> str:
    """The output of a command without this process's own settings."""
    inherited = {key: value for key, value in os.environ.items() if "UNIDEV_SIM" not in key}
    environment = {**inherited, "UNIDEV_BACKEND": "torch", **variables}
    return subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, text=True, check=True
    ).stdout


def main() -> None:
    """Measure both names, each in processes of its own, and print a table."""
    if len(sys.argv) > 1:
        for row in rows_of(sys.argv[1]):
            print(json.dumps(row), flush=True)
        return
    rows: list[Row] = []
    for name in ("sim", "cuda"):
        rows += starts_of(name)
        lines = run([sys.executable, __file__, name], settings(name)).splitlines()
        rows += [Row(*json.loads(line)) for line in lines]
    print_table(rows)


if __name__ == "__main__":
    main()
