"""What ends in an error on NCCL of simulated `cuda`: ``FOLDER case…``, each by two ranks.

They are forks of a process in which torch has been imported. ``case:DETAIL`` is that case with
torch's own checks of each call. Stdout has a line of JSON for each: the case, what each rank
printed, and what the first one wrote to stderr.
"""

# ruff: noqa: E402, T201  torch after the simulator; its report is printed
from __future__ import annotations

import json
import os
import signal
import sys
import time
import traceback
from datetime import timedelta
from pathlib import Path

from unidev.contract import SimulatedGpus
from unidev_torch_simulator import TorchSimulator

TorchSimulator().before_import(SimulatedGpus(count=2, name="cuda"))

import torch
import torch.distributed as dist

SHORT = {"absent", "absent_sender", "killed", "unwaited", "without_the_second"}


def take_part(rank, store, case):
    """Be one of the ranks; the second of some waits until its stdin is closed."""
    if case == "one_device_by_variable":
        os.environ["CUDA_VISIBLE_DEVICES"] = "1"
    if case == "own_device_by_variable":
        os.environ["CUDA_VISIBLE_DEVICES"] = str(rank)
    if case == "without_the_second" and rank == 1:
        sys.stdin.read()  # this rank makes no group
        return
    shares = case in {"one_device", "one_device_by_variable", "own_device_by_variable"}
    limit = timedelta(seconds=3 if case in SHORT else 60)
    size = 3 if case == "pair_of_three" else 2  # there is no third process
    engine = "gloo" if case == "other_shape_on_gloo" else "nccl"
    dist.init_process_group(engine, init_method=store, rank=rank, world_size=size, timeout=limit)
    if case == "barrier_first":  # on the GPU that NCCL guesses, since none is used yet
        dist.barrier()
    torch.cuda.set_device(0 if shares else rank)
    x = torch.ones(3, device="cuda")
    try:
        exchange(rank, case, x)
        print("summed", x.tolist())
    except RuntimeError as error:
        print(type(error).__name__, error)


def exchange(rank, case, x):
    if case in SHORT:
        fail(rank, case, x)
    elif case.startswith("other_shape"):
        dist.all_reduce(torch.ones(2, 2 + rank, device="cuda"))
    elif case == "other_dtype":
        dist.all_reduce(x.half() if rank else x)
    elif case == "other_collective":
        dist.broadcast(x, 0) if rank else dist.all_reduce(x)
    elif case == "pair_of_three":
        dist.send(x, 1) if rank == 0 else dist.recv(x.zero_(), 0)
        dist.recv(x.zero_(), 1) if rank == 0 else dist.send(x + 1, 0)
    else:
        dist.all_reduce(x)


def fail(rank, case, x):
    """The second rank leaves after the first collective, if it has come at all."""
    dist.all_reduce(x)
    if case == "killed" and rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if rank == 1:
        sys.stdin.read()
    elif case == "absent_sender":
        dist.recv(x, 1)
    elif case == "unwaited":
        work = dist.all_reduce(x, async_op=True)
        while not work.is_completed():
            time.sleep(0.1)  # not `wait`, which would raise the error
    elif case != "without_the_second":
        dist.all_reduce(x)


def forked(rank, folder, case, inner, outer):
    """The id of a fork that takes part; it reads ``inner``, and ``outer`` is not its own."""
    child = os.fork()
    if child:
        return child
    os.close(outer)
    os.dup2(inner, 0)
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(folder / f"{name}{rank}", os.O_WRONLY | os.O_CREAT), number)
    name, _, detail = case.partition(":")
    if detail:
        os.environ["TORCH_DISTRIBUTED_DEBUG"] = detail
        dist.set_debug_level_from_env()  # as importing torch.distributed does
    try:
        take_part(rank, (folder / "store").as_uri(), name)
        sys.stdout.flush()
        os._exit(0)
    except BaseException:  # noqa: BLE001  a fork goes no further
        traceback.print_exc()
        os._exit(1)


def ends_of(folder, case):
    folder.mkdir()
    inner, outer = os.pipe()
    first, second = (forked(rank, folder, case, inner, outer) for rank in range(2))
    os.close(inner)
    _, status = os.waitpid(first, 0)
    os.close(outer)
    os.waitpid(second, 0)
    output, other, errors = ((folder / name).read_text() for name in ("out0", "out1", "err0"))
    return case, output, other, errors, status


if __name__ == "__main__":
    for number, case in enumerate(sys.argv[2:]):
        print(json.dumps(ends_of(Path(sys.argv[1]) / str(number), case)), flush=True)
