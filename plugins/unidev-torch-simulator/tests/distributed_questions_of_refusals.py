"""Questions on what NCCL refuses, asked together with those of the collectives."""

# ruff: noqa: I001  torch after the simulator
from __future__ import annotations

from distributed_kit import (
    ALL,
    DEVICE,
    NAME,
    RANK,
    SIZE,
    TOTAL,
    full,
    mine,
    question,
    refused,
    same,
)

import torch
import torch.distributed as dist


@question
def what_nccl_refuses():
    on_cpu = "No backend type associated with device type cpu"
    refused(lambda: dist.all_reduce(torch.ones(2)), on_cpu)
    refused(lambda: dist.all_reduce(mine(dtype=torch.int16)), "type is not supported", TypeError)
    refused(lambda: dist.all_reduce(mine(4, 4)[:, :2]), "Tensors must be contiguous")
    refused(lambda: dist.all_reduce(mine(dtype=torch.int32), dist.ReduceOp.BOR), "ReduceOp.BOR")
    refused(lambda: dist.group.WORLD.merge_remote_group(None, 2), "merge_remote_group")


def is_refused_for_cpu_tensors(call):
    try:
        call()
    except (RuntimeError, ValueError) as error:
        words = str(error)
        return "and dense" in words or "No backend type associated" in words
    return False


@question
def cpu_tensors():
    here, there, both = torch.ones(3), mine(), [mine() for _ in ALL]
    mixed = [here, *both[1:]]
    calls = {
        "all_gather into": lambda: dist.all_gather(mixed, there),
        "all_gather_into_tensor": lambda: dist.all_gather_into_tensor(torch.zeros(3 * SIZE), there),
        "reduce_scatter": lambda: dist.reduce_scatter(there, mixed),
        "reduce_scatter_tensor": lambda: dist.reduce_scatter_tensor(there, torch.zeros(3 * SIZE)),
        "all_to_all": lambda: dist.all_to_all(mixed, both),
        "all_to_all_single": lambda: dist.all_to_all_single(full(0, SIZE), torch.zeros(SIZE)),
        "coalesced": lambda: dist.all_reduce_coalesced([there, here]),
        # Torch itself refuses these.
        "all_gather": lambda: dist.all_gather(both, here),
        "gather": lambda: dist.gather(here, both if RANK == 0 else None, 0),
        "scatter": lambda: dist.scatter(here, both if RANK == 0 else None, 0),
    }
    assert [name for name, call in calls.items() if not is_refused_for_cpu_tensors(call)] == []


@question
def all_gather_coalesced():
    found = [[full(0)] for _ in ALL]
    words = "does not support allgather_coalesced"
    refused(lambda: dist.all_gather_coalesced(found, [mine()]), words, NotImplementedError)


@question
def after_an_abort():
    group = dist.new_group()
    x = mine()
    dist.all_reduce(x, group=group)
    group.abort()
    refused(lambda: dist.all_reduce(x, group=group), "CCL communicator was aborted")
    same(x, TOTAL)


@question
def a_rank_without_a_gpu():
    module = torch.get_device_module(DEVICE)
    refused(lambda: module.set_device(3), "invalid device ordinal" if NAME == "cuda" else "sim:3")


@question
def other_numbers_of_elements():
    room = full(0, 3 * SIZE + 1)
    refused(lambda: dist.all_gather_into_tensor(room, mine()), "output tensor size")
    refused(lambda: dist.reduce_scatter_tensor(full(0, 3), mine()), "input tensor must be")


@question
def transfers_to_itself_that_nccl_refuses():
    for way, words in (
        (dist.isend, "Trying to send to self without a matching recv"),
        (dist.irecv, "Trying to recv to self without a matching send"),
    ):
        refused(lambda way=way: way(mine(), RANK), words, dist.DistBackendError)
        alone = [dist.P2POp(way, mine(), RANK)]
        refused(lambda alone=alone: dist.batch_isend_irecv(alone), words, dist.DistBackendError)
    group = dist.new_group()  # it goes on after such a batch
    x = mine()
    dist.all_reduce(x, group=group)
    same(x, TOTAL)
