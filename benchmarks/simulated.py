"""What a simulated GPU of PyTorch costs beside the CPU: operations, steps, loading, building.

Once for each name: ``sim``, and ``cuda`` on the CPU build. Both compute with the CPU's own kernels,
so the ratio is what the simulation adds.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from measure import IS_TRIAL, Row, compare, rounds_or, sized
from program import ended_by, main

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
TINY_AT_MOST, STEP_AT_MOST, DDP_AT_MOST, HALF_AT_MOST = 2.5, 1.15, 1.3, 1.5
LATE_AT_MOST = {"1": (1.5, 5.0), "report": (2.0, 8.0)}
"""A step and a tiny operation beside the CPU's, on late devices and where races are reported."""
LOAD_AT_MOST_S, BUILD_AT_MOST_S = 0.3, 30.0
DDP_STEPS = sized(10, 1)


def rows_of_name(name: str) -> Iterator[Row]:
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
    for what, dtype, by_float32 in (
        ("autocast float16", torch.float16, False), ("autocast bfloat16", torch.bfloat16, False),
        ("autocast bfloat16, by float32", torch.bfloat16, True),
    ):  # fmt: skip
        was_slow = torch.ops.unidev_sim.exchange_is_slow(dtype, True)
        torch.ops.unidev_sim.exchange_is_slow(dtype, was_slow or by_float32)
        steps = {"ours": gpt_step(device, dtype), "theirs": gpt_step(device, None)}
        row = compare("ours()", "theirs()", steps, rounds=11)
        torch.ops.unidev_sim.exchange_is_slow(dtype, was_slow)
        yield Row(name, f"a step, GPT 3.4 M, {what}", "the same in float32", *row, HALF_AT_MOST)


def rows_of_late(name: str, mode: str) -> Iterator[Row]:
    """The rows of one name whose devices lose races, or report them, in this process."""
    device = unidev.gpu(1).native
    import torch

    torch.set_num_threads(1)
    for_step, for_tiny = LATE_AT_MOST[mode]
    steps = {"ours": step_on(device), "theirs": step_on(torch.device("cpu"))}
    row = compare("ours()", "theirs()", steps)
    yield Row(name, f"a step, MLP, late={mode}", "the same on the CPU", *row, for_step)
    here = torch.ones(8)
    row = compare("there + there", "here + here", {"here": here, "there": here.to(device)})
    yield Row(name, f"x + x, late={mode}", "the same on the CPU", *row, for_tiny)


def step_on(device: Any) -> Any:
    """One step of SGD at batch 256."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10)).to(device)
    return step_of(net, device, 256)


def step_of(net: Any, device: Any, rows: int) -> Any:
    """One step of SGD of ``net`` on so many random digits."""
    import torch

    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    x, y = torch.randn(rows, 784).to(device), torch.randint(0, 10, (rows,)).to(device)

    def step() -> None:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()

    return step


def gpt_step(device: Any, dtype: Any) -> Any:
    """One step of AdamW of a small GPT, in float32 or in mixed precision with a scaler."""
    import torch
    from torch import nn

    width, length, words = sized((256, 128, 512), (32, 16, 64))
    layer = nn.TransformerEncoderLayer(
        width, 4, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True
    )
    net = nn.ModuleList([nn.Embedding(words, width), nn.TransformerEncoder(layer, 4),
                         nn.Linear(width, words)]).to(device)  # fmt: skip
    optimizer = torch.optim.AdamW(net.parameters())
    scaler = torch.amp.GradScaler(device.type, enabled=dtype == torch.float16)
    tokens = torch.randint(words, (8, length)).to(device)
    mask = nn.Transformer.generate_square_subsequent_mask(length).to(device)

    def step() -> None:
        optimizer.zero_grad()
        with torch.autocast(device.type, dtype=dtype, enabled=dtype is not None):
            embed, encode, read = net
            found = read(encode(embed(tokens), mask=mask, is_causal=True))
            loss = nn.functional.cross_entropy(found.flatten(0, 1), tokens.flatten())
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

    return step


def ddp_row(name: str) -> Row:
    """A step of DDP with two processes, which measure both in turn."""
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, __file__, "of", name, (Path(folder) / "store").as_uri()]
        second = subprocess.Popen([*words, "1"], env=environment(settings(name)))
        try:
            ours, theirs = json.loads(run([*words, "0"], settings(name)))
            second.wait()
        finally:
            second.kill()
    ratio = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
    took = statistics.median(ours), statistics.median(theirs)
    return Row(name, "a step of DDP, 0.5 M, 2 processes", "DDP on the CPU, gloo", *took, ratio,
               DDP_AT_MOST)  # fmt: skip


def ddp_times(store: str, rank: int) -> tuple[list[float], list[float]]:
    """Seconds of a step on simulated GPUs, and on the CPU, in each round."""
    device = unidev.gpu(rank).native
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    engine = dist.get_default_backend_for_device(device)
    dist.init_process_group(
        f"cpu:gloo,{device.type}:{engine}", init_method=store, rank=rank, world_size=2
    )
    steps = [ddp_step(device), ddp_step(torch.device("cpu"))]
    took: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds_or(25) + 2):
        for step, seconds in zip(steps, took, strict=True):
            began = time.perf_counter()
            for _ in range(DDP_STEPS):
                step()
            if number >= 2:  # the first ones make connections and buckets
                seconds.append((time.perf_counter() - began) / DDP_STEPS)
    dist.destroy_process_group()
    return took


def ddp_step(device: Any) -> Any:
    """One step of SGD of an MLP with 0.5 million parameters at batch 64, by DDP."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256), nn.Linear(256, 10))
    return step_of(nn.parallel.DistributedDataParallel(net.to(device)), device, 64)


def starts_of(name: str) -> Iterator[Row]:
    """Starting Python with the devices, against starting it without; and building the library."""
    program = "import unidev; unidev.set_backend('torch'); unidev.try_all_gpus()"
    with tempfile.TemporaryDirectory() as cache:
        # A trial builds nothing where the user's own cache has the library.
        variables = settings(name) | ({} if IS_TRIAL else {"UNIDEV_CACHE": cache})
        built = 0.0 if IS_TRIAL else seconds(program, variables)
        took = [(seconds(program, variables), seconds(program, {})) for _ in range(rounds_or(7))]
    ours, theirs = (statistics.median(each) for each in zip(*took, strict=True))
    added = max(0.0, statistics.median(a - b for a, b in took))  # less than nothing is noise
    limit = f"{LOAD_AT_MOST_S:g} s"
    yield Row(name, "start, more than without", limit, added, LOAD_AT_MOST_S,
              added / LOAD_AT_MOST_S, 1)  # fmt: skip
    yield Row(name, "start with 2 GPUs", "without", ours, theirs, ours / theirs, None)
    if IS_TRIAL:
        return
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
    return subprocess.run(
        command, env=environment(variables), stdout=subprocess.PIPE, text=True, check=True
    ).stdout


def environment(variables: dict[str, str]) -> dict[str, str]:
    """This process's, without its own simulated devices."""
    inherited = {key: value for key, value in os.environ.items() if "UNIDEV_SIM" not in key}
    return {**inherited, "UNIDEV_BACKEND": "torch", **variables}


def child(name: str, store: str = "", rank: str = "0") -> int:
    """Print the rows of one name, or the times of a step of DDP."""
    if store:
        took = ddp_times(store, int(rank))
        if rank == "0":
            print(json.dumps(took))
        return 0
    late = os.environ.get("UNIDEV_SIMULATE_LATE")
    for row in rows_of_late(name, late) if late else rows_of_name(name):
        print(json.dumps(row), flush=True)
    return 0


def rows_of(backend: str, _: str) -> Iterator[Row | str]:
    """Measure both names, each in processes of its own."""
    if backend != "torch":
        yield "only PyTorch's simulated GPUs are measured"
        return
    for name in ("sim", "cuda"):
        yield from starts_of(name)
        lines = run([sys.executable, __file__, "of", name], settings(name)).splitlines()
        for mode in LATE_AT_MOST:
            given = {**settings(name), "UNIDEV_SIMULATE_LATE": mode}
            lines += run([sys.executable, __file__, "of", name], given).splitlines()
        yield from (Row(*json.loads(line)) for line in lines)
        yield ddp_row(name)


if __name__ == "__main__":
    if sys.argv[1:2] == ["of"]:
        ended_by(lambda: child(*sys.argv[2:]))
    main(__doc__ or "", rows_of)
