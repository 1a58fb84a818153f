"""What ends in an error on NCCL of simulated `cuda`: `rank store case`, for two processes."""

# ruff: noqa: E402, T201  torch after the simulator; its report is printed
from __future__ import annotations

import os
import signal
import sys
import time
from datetime import timedelta

from unidev.contract import SimulatedGpus
from unidev_torch.simulator import TorchSimulator

TorchSimulator().before_import(SimulatedGpus(count=2, name="cuda"))

import torch
import torch.distributed as dist

RANK, CASE = int(sys.argv[1]), sys.argv[3]
if CASE == "one_device_by_variable":
    os.environ["CUDA_VISIBLE_DEVICES"] = "1"
if CASE == "own_device_by_variable":
    os.environ["CUDA_VISIBLE_DEVICES"] = str(RANK)
if CASE == "without_the_second" and RANK == 1:
    sys.stdin.read()  # until the test closes it: this rank makes no group
    os._exit(0)
shares = CASE in {"one_device", "one_device_by_variable", "own_device_by_variable"}
short = {"absent", "absent_sender", "killed", "unwaited", "without_the_second"}
limit = timedelta(seconds=3 if CASE in short else 60)
size = 3 if CASE == "pair_of_three" else 2  # there is no third process
engine = "gloo" if CASE == "other_shape_on_gloo" else "nccl"
dist.init_process_group(engine, init_method=sys.argv[2], rank=RANK, world_size=size, timeout=limit)
if CASE == "barrier_first":  # on the GPU that NCCL guesses, since none is used yet
    dist.barrier()
torch.cuda.set_device(0 if shares else RANK)
x = torch.ones(3, device="cuda")
try:
    if CASE in {"absent", "absent_sender", "killed", "unwaited"}:
        dist.all_reduce(x)
        if CASE == "killed" and RANK == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        if RANK == 0 and CASE == "absent_sender":
            dist.recv(x, 1)
        elif RANK == 0 and CASE == "unwaited":
            work = dist.all_reduce(x, async_op=True)
            while not work.is_completed():
                time.sleep(0.1)  # not `wait`, which would raise the error
        elif RANK == 0:
            dist.all_reduce(x)
        else:
            sys.stdin.read()  # until the test closes it
    elif CASE.startswith("other_shape"):
        dist.all_reduce(torch.ones(2, 2 + RANK, device="cuda"))
    elif CASE == "other_dtype":
        dist.all_reduce(x.half() if RANK else x)
    elif CASE == "other_collective":
        dist.broadcast(x, 0) if RANK else dist.all_reduce(x)
    elif CASE == "pair_of_three":
        dist.send(x, 1) if RANK == 0 else dist.recv(x.zero_(), 0)
        dist.recv(x.zero_(), 1) if RANK == 0 else dist.send(x + 1, 0)
    else:
        dist.all_reduce(x)
    print("summed", x.tolist())
except RuntimeError as error:
    print(type(error).__name__, error)
sys.stdout.flush()
os._exit(0)
