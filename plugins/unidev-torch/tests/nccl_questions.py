"""Questions on NCCL of simulated `cuda`, asked by each of several processes: `rank size store`.

Prints a line of JSON: for each question ``ok`` or its error, and for each mutant whether it is
caught. Questions compare only after their last exchange, so that ranks stay in step.
"""

# ruff: noqa: E402, T201, PT017, I001  torch after the simulator; its report is printed
from __future__ import annotations

import copy
import json
import sys
import warnings
from datetime import timedelta

from unidev.contract import SimulatedGpus
from unidev_torch.simulator import TorchSimulator

TorchSimulator().before_import(SimulatedGpus(count=3, name="cuda"))

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as fc
from torch import nn
from torch.distributed.distributed_c10d import _coalescing_manager

from unidev_torch.simulator.cuda.nccl import works

warnings.simplefilter("ignore")
RANK, SIZE = int(sys.argv[1]), int(sys.argv[2])
DEVICE = torch.device("cuda", RANK)
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
    dist.barrier()
    dist.barrier(device_ids=[RANK])
    dist.barrier(async_op=True).wait()


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
        refused(lambda: group.allreduce([x]).wait(), "NCCL communicator was aborted")
    same(x, 3 if RANK < 2 else RANK + 1)


@question
def split():
    group = dist.split_group(split_ranks=[list(ALL)])
    x = mine()
    dist.all_reduce(x, group=group)
    same(x, TOTAL)


@question
def both_backends():
    group = dist.new_group(backend="cpu:gloo,cuda:nccl")
    x, y = mine(), torch.ones(3)
    dist.all_reduce(x, group=group)
    dist.all_reduce(y, group=group)
    same(x, TOTAL)
    same(y, SIZE)


@question
def gloo_with_cuda():
    group = dist.new_group(backend="gloo")
    x = mine()
    dist.all_reduce(x, group=group)
    same(x, TOTAL)


@question
def what_nccl_refuses():
    on_cpu = "No backend type associated with device type cpu"
    refused(lambda: dist.all_reduce(torch.ones(2)), on_cpu)
    refused(lambda: dist.all_reduce(mine(dtype=torch.int16)), "not supported for NCCL", TypeError)
    refused(lambda: dist.all_reduce(mine(4, 4)[:, :2]), "Tensors must be contiguous")
    refused(lambda: dist.all_reduce(mine(dtype=torch.int32), dist.ReduceOp.BOR), "ReduceOp.BOR")
    refused(lambda: dist.group.WORLD.merge_remote_group(None, 2), "merge_remote_group")


@question
def other_numbers_of_elements():
    room = full(0, 3 * SIZE + 1)
    refused(lambda: dist.all_gather_into_tensor(room, mine()), "output tensor size")
    refused(lambda: dist.reduce_scatter_tensor(full(0, 3), mine()), "input tensor must be")


@question
def its_names():
    assert dist.is_nccl_available()
    assert dist.get_backend() == "nccl"
    assert torch.cuda.nccl.version() >= (2, 20)


@question
def the_backend_itself():
    x = mine()
    dist.group.WORLD._get_backend(DEVICE).allreduce([x]).wait()
    same(x, TOTAL)


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def data():
    return torch.arange(SIZE * 2 * 4.0).view(SIZE * 2, 4) / 10


def alone():
    """Gradients of one process on all data."""
    one = model()
    one(data()).pow(2).mean().backward()
    return [each.grad for each in one.parameters()]


def trained(wrapped):
    wrapped(data().chunk(SIZE)[RANK].to(DEVICE)).pow(2).mean().backward()


@question
def ddp():
    for named in ({}, {"find_unused_parameters": True}, {"static_graph": True},
                  {"gradient_as_bucket_view": True}):  # fmt: skip
        wrapped = nn.parallel.DistributedDataParallel(model().to(DEVICE), [RANK], **named)
        trained(wrapped)
        for each, expected in zip(wrapped.parameters(), alone(), strict=True):
            same(each.grad, expected)


@question
def ddp_no_sync_and_hooks():
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

    wrapped = nn.parallel.DistributedDataParallel(model().to(DEVICE), [RANK])
    with wrapped.no_sync():
        trained(wrapped)
    trained(wrapped)
    for each, expected in zip(wrapped.parameters(), alone(), strict=True):
        same(each.grad, 2 * expected)
    for hook in (default_hooks.fp16_compress_hook, default_hooks.bf16_compress_hook):
        hooked = nn.parallel.DistributedDataParallel(model().to(DEVICE), [RANK])
        hooked.register_comm_hook(None, hook)
        trained(hooked)
        for each, expected in zip(hooked.parameters(), alone(), strict=True):
            assert torch.allclose(each.grad.cpu(), expected, rtol=2e-2, atol=2e-2)
    refused(lambda: hooked.register_comm_hook(None, {}), "must be callable", TypeError)


@question
def sync_batch_norm():
    x = torch.arange(96.0).reshape(8, 3, 2, 2).sin()
    slope = x.cos()
    # The ranks have different numbers of samples.
    share = [2, *[6 // (SIZE - 1)] * (SIZE - 1)]
    for layout in (torch.contiguous_format, torch.channels_last):
        alone, given = nn.BatchNorm2d(3), x.clone().requires_grad_()
        with torch.no_grad():
            alone.weight.copy_(torch.arange(1.0, 4))
        layer = nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(alone)).to(DEVICE)
        expected = alone(given)
        (expected * slope).sum().backward()
        part = x.split(share)[RANK].to(DEVICE, memory_format=layout).requires_grad_()
        found = layer(part)
        (found * slope.split(share)[RANK].to(DEVICE)).sum().backward()
        same(found, expected.split(share)[RANK].detach())
        same(part.grad, given.grad.split(share)[RANK])
        same(layer.running_mean, alone.running_mean)
        same(layer.running_var, alone.running_var)
        for mine_, whole in zip(layer.parameters(), alone.parameters(), strict=True):
            dist.all_reduce(mine_.grad)
            assert torch.allclose(mine_.grad.cpu(), whole.grad, rtol=1e-4, atol=1e-4)
    half = nn.SyncBatchNorm(3).to(DEVICE)(x.to(DEVICE, torch.float16))
    assert half.dtype == torch.float16
    same(half.mean((0, 2, 3)).float().round(decimals=2) + 0, 0)


@question
def fsdp1():
    from torch.distributed.fsdp import FullyShardedDataParallel

    wrapped = FullyShardedDataParallel(model().to(DEVICE), device_id=RANK, use_orig_params=True)
    trained(wrapped)
    with FullyShardedDataParallel.summon_full_params(wrapped, with_grads=True):
        found = [each.grad.clone() for each in wrapped.parameters()]
    for each, expected in zip(found, alone(), strict=True):
        same(each, expected)


@question
def fsdp2():
    from torch.distributed.fsdp import fully_shard

    wrapped = model().to(DEVICE)
    fully_shard(wrapped[0])
    fully_shard(wrapped)
    trained(wrapped)
    found = [each.grad.full_tensor() for each in wrapped.parameters()]
    for each, expected in zip(found, alone(), strict=True):
        same(each, expected)


@question
def dtensor():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh = init_device_mesh("cuda", (SIZE,))
    x = torch.arange(SIZE * 4.0).view(SIZE, 4)
    shared = distribute_tensor(x.to(DEVICE), mesh, [Shard(0)])
    found = shared.redistribute(mesh, [Replicate()]).to_local()
    total = shared.sum().full_tensor()
    same(found, x)
    same(total, x.sum())


@question
def tensor_parallel():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import (
        ColwiseParallel, RowwiseParallel, parallelize_module,
    )  # fmt: skip

    mesh = init_device_mesh("cuda", (SIZE,))
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    found = parallelize_module(model().to(DEVICE), mesh, plan)(data().to(DEVICE))
    same(found.detach(), model()(data()).detach())


@question
def pipeline():
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

    parts = [nn.Linear(4, 4) for _ in ALL]
    for part in parts:
        torch.manual_seed(1)
        nn.init.normal_(part.weight)
        nn.init.zeros_(part.bias)
    whole = nn.Sequential(*parts)
    x = data()[:4]
    for kind in (ScheduleGPipe, Schedule1F1B):
        stage = PipelineStage(parts[RANK].to(DEVICE), RANK, SIZE, DEVICE)
        schedule = kind(stage, n_microbatches=4, loss_fn=lambda a, b: (a - b).pow(2).mean())
        y, losses = torch.zeros(4, 4, device=DEVICE), []
        if RANK == 0:
            schedule.step(x.to(DEVICE))
        elif RANK == SIZE - 1:
            schedule.step(target=y, losses=losses)
        else:
            schedule.step()
        parts[RANK].cpu()
        if losses:
            same(torch.stack(losses).mean().detach(), whole(x).pow(2).mean().detach())


@question
def checkpoint():
    import torch.distributed.checkpoint as dcp
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    mesh = init_device_mesh("cuda", (SIZE,))
    x = distribute_tensor(torch.arange(SIZE * 2.0, device=DEVICE), mesh, [Shard(0)])
    y = distribute_tensor(torch.zeros(SIZE * 2, device=DEVICE), mesh, [Shard(0)])
    folder = sys.argv[3].removeprefix("file://") + ".checkpoint"
    dcp.save({"x": x}, checkpoint_id=folder)
    dcp.load({"x": y}, checkpoint_id=folder)
    same(y.to_local(), x.to_local())


@question
def sampler():
    drawn = list(torch.utils.data.DistributedSampler(range(4 * SIZE), shuffle=False))
    assert drawn == list(range(RANK, 4 * SIZE, SIZE))


MUTANTS = {
    "all_reduce": "allreduce", "all_reduce_dtypes": "allreduce", "premul_sum": "allreduce",
    "coalesced": "allreduce", "reduce_scatter": "allreduce", "reduce_scatter_tensor": "allreduce",
    "functional": "allreduce", "subgroup": "allreduce", "split": "allreduce", "ddp": "allreduce",
    "broadcast": "broadcast", "reduce": "reduce", "all_gather": "allgather",
    "all_gather_uneven": "broadcast", "all_gather_other_shape": "allgather", "gather": "gather",
    "scatter": "scatter", "all_to_all": "alltoall_base", "all_to_all_single": "alltoall_base",
    "all_to_all_splits": "alltoall_base", "send_and_recv": "send", "batched_transfers": "send",
    "transfers_in_order": "send",
}  # fmt: skip
"""Questions, and the exchange of gloo's into which each rank gives zeros: its part is lost."""


def is_caught(name):
    original = works.Call.backend_call

    def lossy(self, method, *given):
        if method == MUTANTS[name]:
            # A tensor, or lists of them: all that the rank gives, and all that it makes room for.
            for each in given:
                for tensor in _tensors(each):
                    tensor.zero_()
        return original(self, method, *given)

    works.Call.backend_call = lossy
    caught = 0
    try:
        QUESTIONS[name]()
    except AssertionError:
        caught = 1
    finally:
        works.Call.backend_call = original
    found = full(caught, 1)
    dist.all_reduce(found)
    return bool(found.item())


def _tensors(value):
    if isinstance(value, torch.Tensor):
        return [value]
    return [t for each in value for t in _tensors(each)] if isinstance(value, list) else []


def main():
    torch.cuda.set_device(DEVICE)
    dist.init_process_group(
        "nccl", init_method=sys.argv[3], rank=RANK, world_size=SIZE,
        timeout=timedelta(seconds=60), device_id=DEVICE,
    )  # fmt: skip
    found, only = {}, sys.argv[4:]
    for name, function in QUESTIONS.items():
        if only and name not in only:
            continue
        try:
            function()
            found[name] = "ok"
        except Exception as error:  # noqa: BLE001  reported by its question
            found[name] = f"{type(error).__name__}: {str(error)[:600]}"
    caught = {name: is_caught(name) for name in MUTANTS if SIZE == 2 and not only}
    print("found", json.dumps({"found": found, "caught": caught}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
