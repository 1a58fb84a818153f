"""Questions on what trains over several simulated GPUs, asked by each of several processes."""

# ruff: noqa: T201, I001  torch after the simulator; its report is printed
from __future__ import annotations

import copy
import json
import sys

from distributed_kit import ALL, DEVICE, RANK, SIZE, answers, meet, question, refused, same

import torch
import torch.distributed as dist
from torch import nn


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 12), nn.ReLU(), nn.Linear(12, 2))


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
    # PyTorch asks for NCCL before it sends bfloat16.
    halves = [default_hooks.bf16_compress_hook] if DEVICE.type == "cuda" else []
    for hook in (default_hooks.fp16_compress_hook, *halves):
        hooked = nn.parallel.DistributedDataParallel(model().to(DEVICE), [RANK])
        hooked.register_comm_hook(None, hook)
        trained(hooked)
        for each, expected in zip(hooked.parameters(), alone(), strict=True):
            assert torch.allclose(each.grad.cpu(), expected, rtol=2e-2, atol=2e-2)
    refused(lambda: hooked.register_comm_hook(None, {}), "must be callable", TypeError)


@question
def ddp_compiled():
    wrapped = nn.parallel.DistributedDataParallel(model().to(DEVICE), [RANK])
    compiled = torch.compile(wrapped, backend="eager")
    for _ in range(3):  # after the first, DDP builds its buckets anew, by a broadcast
        compiled.zero_grad()
        trained(compiled)
    for each, expected in zip(wrapped.parameters(), alone(), strict=True):
        same(each.grad, expected)


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
def ddp_power_sgd():
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook

    wrapped = nn.parallel.DistributedDataParallel(model().to(DEVICE), [RANK])
    state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=4, start_powerSGD_iter=2)
    wrapped.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    for _ in range(3):
        wrapped.zero_grad()
        trained(wrapped)
    for each, expected in zip(wrapped.parameters(), alone(), strict=True):
        # The first layer has rank 4, so that nothing is lost.
        assert torch.allclose(each.grad.cpu(), expected, rtol=1e-2, atol=1e-3)


@question
def fsdp1():
    from torch.distributed.fsdp import FullyShardedDataParallel

    wrapped = FullyShardedDataParallel(model().to(DEVICE), device_id=DEVICE, use_orig_params=True)
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

    mesh = init_device_mesh(DEVICE.type, (SIZE,))
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

    mesh = init_device_mesh(DEVICE.type, (SIZE,))
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

    mesh = init_device_mesh(DEVICE.type, (SIZE,))
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


if __name__ == "__main__":
    meet()
    print("found", json.dumps(answers(sys.argv[5:])), flush=True)
    dist.destroy_process_group()
