"""The processes of the questions on ``torch.distributed``: ``rank size store cuda|sim``.

Each gives tensors of its own GPU. Questions compare only after their last exchange, so that ranks
stay in step.
"""

# ruff: noqa: E402, PT017  torch after the simulator
from __future__ import annotations

import sys
import warnings
from datetime import timedelta

from unidev.contract import SimulatedGpus
from unidev_torch_simulator import TorchSimulator

NAME = sys.argv[4]
BACKEND = {"cuda": "nccl", "sim": "simccl"}[NAME]
if NAME == "cuda":
    TorchSimulator().before_import(SimulatedGpus(count=3, name="cuda"))
else:
    TorchSimulator().start(3)

import torch
import torch.distributed as dist

warnings.simplefilter("ignore")
RANK, SIZE = int(sys.argv[1]), int(sys.argv[2])
DEVICE = torch.device(NAME, RANK)
ALL = range(SIZE)
TOTAL = sum(rank + 1 for rank in ALL)
QUESTIONS = {}


def question(function):
    QUESTIONS[function.__name__] = function
    return function


def full(value, *shape, dtype=torch.float32):
    return torch.full(shape or (3,), value, dtype=dtype, device=DEVICE)


def same(found, expected):
    found = torch.as_tensor(found).cpu().double()
    expected = torch.as_tensor(expected).cpu().double().expand(found.shape)
    assert torch.allclose(found, expected, atol=1e-5), (found, expected)


def mine(*shape, dtype=torch.float32):
    return full(RANK + 1, *shape, dtype=dtype)


def refused(call, words, kind=Exception):
    try:
        call()
    except kind as error:
        assert words in str(error), error
    else:
        raise AssertionError(f"not refused: {words}")


def meet():
    torch.get_device_module(DEVICE).set_device(DEVICE)
    dist.init_process_group(
        BACKEND, init_method=sys.argv[3], rank=RANK, world_size=SIZE,
        timeout=timedelta(seconds=60), device_id=DEVICE,
    )  # fmt: skip


def answers(only):
    """``ok``, or its error, for each question."""
    found = {}
    for name, function in QUESTIONS.items():
        if only and name not in only:
            continue
        try:
            function()
            found[name] = "ok"
        except Exception as error:  # noqa: BLE001  reported by its question
            found[name] = f"{type(error).__name__}: {str(error)[:600]}"
    return found
