"""Questions on the collectives of simulated GPUs, asked by each of several processes.

Prints a line of JSON: for each question ``ok`` or its error.
"""

# ruff: noqa: T201, I001  torch after the simulator; its report is printed
from __future__ import annotations

import itertools
import json
import sys
import time

from distributed_kit import (
    ALL, BACKEND, DEVICE, NAME, RANK, SIZE, TOTAL, answers, full, meet, mine, question,
    refused, same,
)  # fmt: skip

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as fc
from torch.distributed.distributed_c10d import _coalescing_manager

import distributed_questions_of_refusals  # noqa: F401  adds its questions


NUMBERS = itertools.count()


@question
def all_reduce():
    x = mine()
    dist.all_reduce(x)
    same(x, TOTAL)


@question
def all_reduce_async():
    x = mine()
    work = dist.all_reduce(x, async_op=True)
    work.wait()
    same(x, TOTAL)
    assert work.is_completed()
    assert work.get_future().value()[0] is not None


@question
def all_reduce_dtypes():
    kinds = (torch.bfloat16, torch.float16, torch.float64, torch.int8, torch.uint8, torch.int32)
    found = []
    for dtype in (*kinds, torch.int64):
        x = mine(dtype=dtype)
        dist.all_reduce(x)
        found.append(x)
    for x in found:
        same(x, TOTAL)


@question
def all_reduce_bool():
    x = torch.tensor([RANK == 0, True, False], device=DEVICE)
    dist.all_reduce(x)
    same(x, torch.tensor([1, 1, 0]))


@question
def all_reduce_operations():
    found = [mine() for _ in range(4)]
    names = ("MAX", "MIN", "PRODUCT", "AVG")
    for x, name in zip(found, names, strict=True):
        dist.all_reduce(x, getattr(dist.ReduceOp, name))
    product = 1
    for rank in ALL:
        product *= rank + 1
    for x, value in zip(found, (SIZE, 1, product, TOTAL / SIZE), strict=True):
        same(x, value)


@question
def premul_sum():
    x, y = mine(), mine()
    dist.all_reduce(x, dist._make_nccl_premul_sum(2.0))
    dist.all_reduce(y, dist._make_nccl_premul_sum(torch.tensor([0.5], device=DEVICE)))
    same(x, 2 * TOTAL)
    same(y, TOTAL / 2)


@question
def coalesced():
    x, y = mine(), mine(2)
    with _coalescing_manager():
        dist.all_reduce(x)
        dist.all_reduce(y)
    a, b = full(0, SIZE), full(0, SIZE)
    with _coalescing_manager(async_ops=True) as manager:
        dist.all_gather_into_tensor(a, mine(1))
        dist.all_gather_into_tensor(b, mine(1))
    manager.wait()
    c = full(0, 2)
    with _coalescing_manager():
        dist.reduce_scatter_tensor(c, mine(2 * SIZE))
    same(x, TOTAL)
    same(y, TOTAL)
    same(a, torch.arange(SIZE) + 1)
    same(b, torch.arange(SIZE) + 1)
    same(c, TOTAL)


@question
def broadcast():
    x = mine()
    dist.broadcast(x, SIZE - 1)
    same(x, SIZE)


@question
def reduce():
    x = mine()
    dist.reduce(x, 1)
    same(x, TOTAL if RANK == 1 else RANK + 1)


@question
def all_gather():
    found = [full(0) for _ in ALL]
    dist.all_gather(found, mine())
    for rank, x in enumerate(found):
        same(x, rank + 1)


@question
def all_gather_uneven():
    found = [full(0, rank + 1) for rank in ALL]
    dist.all_gather(found, mine(RANK + 1))
    for rank, x in enumerate(found):
        same(x, rank + 1)


@question
def all_gather_other_shape():
    x = full(0, SIZE, 3)
    dist.all_gather_into_tensor(x.view(-1), mine(3, 1))
    for rank in ALL:
        same(x[rank], rank + 1)


@question
def reduce_scatter():
    x = full(0)
    dist.reduce_scatter(x, [mine() * (rank + 1) for rank in ALL])
    same(x, TOTAL * (RANK + 1))


@question
def reduce_scatter_tensor():
    x = full(0, 2)
    dist.reduce_scatter_tensor(x, torch.arange(2.0 * SIZE, device=DEVICE), dist.ReduceOp.AVG)
    same(x, torch.arange(2.0 * SIZE).view(SIZE, 2)[RANK])


@question
def gather():
    found = [full(0) for _ in ALL] if RANK == 0 else None
    dist.gather(mine(), found, 0)
    for rank, x in enumerate(found or []):
        same(x, rank + 1)


@question
def scatter():
    x = full(0)
    dist.scatter(x, [full(rank + 5) for rank in ALL] if RANK == 0 else None, 0)
    same(x, RANK + 5)


@question
def all_to_all():
    found = [full(0) for _ in ALL]
    dist.all_to_all(found, [full(10 * RANK + rank) for rank in ALL])
    for rank, x in enumerate(found):
        same(x, 10 * rank + RANK)


@question
def all_to_all_single():
    x = full(0, SIZE)
    dist.all_to_all_single(x, torch.arange(float(SIZE), device=DEVICE) + 10 * RANK)
    same(x, torch.arange(SIZE) * 10 + RANK)


@question
def all_to_all_splits():
    sizes = [rank + 1 for rank in ALL]
    x = full(0, SIZE * (RANK + 1), 2)
    dist.all_to_all_single(x, mine(sum(sizes), 2), [RANK + 1] * SIZE, sizes)
    same(x[:, 0], torch.arange(SIZE).repeat_interleave(RANK + 1) + 1)


@question
def send_and_recv():
    x = mine()
    if RANK == 0:
        dist.send(x, 1)
    elif RANK == 1:
        dist.recv(x, 0)
    same(x, 1 if RANK < 2 else RANK + 1)


@question
def batched_transfers():
    x = full(0)
    first = dist.P2POp(dist.isend, mine(), (RANK + 1) % SIZE)
    works = dist.batch_isend_irecv([first, dist.P2POp(dist.irecv, x, (RANK - 1) % SIZE)])
    for work in works:
        work.wait()
    same(x, (RANK - 1) % SIZE + 1)


@question
def batched_transfers_to_itself():
    mine_there, other, back = full(0), full(0, 2), full(0)
    after, before = (RANK + 1) % SIZE, (RANK - 1) % SIZE
    pairs = [
        (dist.irecv, mine_there, RANK), (dist.isend, full(RANK + 5), RANK),
        (dist.isend, mine(), after), (dist.irecv, back, before),
        (dist.isend, full(RANK + 9, 2), RANK), (dist.irecv, other, RANK),
    ]  # fmt: skip
    for work in dist.batch_isend_irecv([dist.P2POp(*each) for each in pairs]):
        work.wait()
    same(mine_there, RANK + 5)
    same(other, RANK + 9)
    same(back, before + 1)


@question
def transfers_in_order():
    found = [full(0), full(0)]
    if RANK == 0:
        sent = [dist.isend(full(7), 1), dist.isend(full(8), 1)]
    else:
        sent = [dist.irecv(x, 0) for x in found] if RANK == 1 else []
    for work in sent:
        work.get_future().wait()
    if RANK == 1:
        same(found[0], 7)
        same(found[1], 8)


@question
def objects():
    found, one = [None] * SIZE, [{"from": RANK}]
    dist.all_gather_object(found, {"rank": RANK})
    dist.broadcast_object_list(one, 1)
    assert found == [{"rank": rank} for rank in ALL]
    assert one == [{"from": 1}]


@question
def objects_with_a_log_of_them():
    before = dist.get_debug_level()
    dist.set_debug_level(dist.DebugLevel.DETAIL)
    try:
        found = [None] * SIZE
        dist.all_gather_object(found, RANK)
    finally:
        dist.set_debug_level(before)
    assert found == [*ALL]


@question
def barriers():
    store = dist.distributed_c10d._get_default_store()
    for given in ({}, {"device_ids": [RANK]}, {"async_op": True}):
        key = f"before barrier {next(NUMBERS)}"
        if RANK == 0:
            time.sleep(0.2)  # without a barrier, the others look for the key before
            store.set(key, "")
        work = dist.barrier(**given)
        if work is not None:
            work.wait()
        assert store.check([key]), given


@question
def for_none_the_host_waits():
    x, parts, row = mine(1), [mine(1) for _ in range(SIZE)], mine(SIZE)
    torch.ops.unidev_sim.set_sync_debug_mode(2)  # as `torch.cuda.set_sync_debug_mode("error")`
    try:
        dist.all_gather(parts, x)
        dist.all_reduce(x, async_op=True).wait()
        dist.broadcast(x, 0)
        dist.reduce_scatter_tensor(parts[0], row)
        dist.all_to_all_single(row, row.clone())
    finally:
        torch.ops.unidev_sim.set_sync_debug_mode(0)


@question
def functional():
    x = fc.all_reduce(mine(), "sum", dist.group.WORLD)
    y = fc.all_gather_tensor(mine(2), 0, dist.group.WORLD)
    z = fc.reduce_scatter_tensor(mine(SIZE), "sum", 0, dist.group.WORLD)
    same(x + 0, TOTAL)
    same(y + 0, torch.arange(SIZE).repeat_interleave(2) + 1)
    same(z + 0, TOTAL)


@question
def subgroup():
    group = dist.new_group([0, 1])
    x = mine()
    if RANK < 2:
        dist.all_reduce(x, group=group)
        dist.destroy_process_group(group)
        refused(lambda: group.allreduce([x]).wait(), "CCL communicator was aborted")
    same(x, 3 if RANK < 2 else RANK + 1)


@question
def split():
    group = dist.split_group(split_ranks=[list(ALL)])
    x = mine()
    dist.all_reduce(x, group=group)
    same(x, TOTAL)


@question
def both_backends():
    group = dist.new_group(backend=f"cpu:gloo,{DEVICE.type}:{BACKEND}")
    x, y = mine(), torch.ones(3)
    dist.all_reduce(x, group=group)
    dist.all_reduce(y, group=group)
    same(x, TOTAL)
    same(y, SIZE)


@question
def gloo_with_cuda():
    if NAME == "sim":  # torch has gloo for `cpu` and `cuda` only
        # Of one: a rank that drops its group may leave another one connecting to it for ever.
        own = {"ranks": [RANK], "use_local_synchronization": True}
        refused(lambda: dist.new_group(backend="gloo", **own), "No backend type associated")
        return
    group = dist.new_group(backend="gloo")
    x = mine()
    dist.all_reduce(x, group=group)
    same(x, TOTAL)


@question
def its_names():
    assert dist.get_backend() == BACKEND
    if NAME == "cuda":
        assert dist.is_nccl_available()
        assert torch.cuda.nccl.version() >= (2, 20)


@question
def the_backend_itself():
    x = mine()
    dist.group.WORLD._get_backend(DEVICE).allreduce([x]).wait()
    same(x, TOTAL)


if __name__ == "__main__":
    meet()
    print("found", json.dumps(answers(sys.argv[5:])), flush=True)
    dist.destroy_process_group()
