"""Programs with one race each, after public threads; and programs that look as if they had one.

Each takes whether it is mended, and returns what it computed and what that should be. A comment
``first`` marks the line that queues, ``second`` that which uses it without waiting.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

if TYPE_CHECKING:
    from collections.abc import Callable

RACES: dict[str, Callable[[bool], Any]] = {}
NO_RACES: dict[str, Callable[[], Any]] = {}
NAME = torch.accelerator.current_accelerator().type  # cuda or sim
cuda = torch.get_device_module(NAME)


def race(thread: str) -> Any:
    return lambda program: RACES.setdefault(f"{program.__name__}, {thread}", program)


def no_race(program: Any) -> Any:
    return NO_RACES.setdefault(program.__name__, program)


def on_gpu(value: float = 1.0, size: int = 6) -> Any:
    made = torch.full((size,), value, device=NAME)
    cuda.synchronize()
    return made


@race("vllm-project/vllm#36013")
def numpy_view_is_read_before_the_copy_has_landed(mended: bool) -> Any:
    accepted = torch.zeros(6, pin_memory=True)
    view = accepted.numpy()
    accepted.copy_(on_gpu(3.0), non_blocking=True)  # first
    if mended:
        cuda.current_stream().record_event().synchronize()
    return accepted.tolist(), [3.0] * 6, view  # second


@race("vllm-project/vllm#31841")
def one_pinned_buffer_for_all_steps(mended: bool) -> Any:
    buffers = [torch.zeros(6, pin_memory=True) for _ in range(2)]
    sums = on_gpu(0.0)
    for step in range(2):
        buffer = buffers[step if mended else 0]
        buffer.fill_(step + 1)  # second
        sums += buffer.to(NAME, non_blocking=True)  # first
    return sums.tolist(), [3.0] * 6


@race("invoke-ai/InvokeAI#6624")
def model_moved_to_the_cpu_is_used_at_once(mended: bool) -> Any:
    net = torch.nn.Linear(3, 3).to(NAME)
    want = net.weight.tolist()
    net.to("cpu", non_blocking=True)  # first
    if mended:
        cuda.synchronize()
    return (net.weight * 1).tolist(), want  # second


@race("pytorch/pytorch#127612")
def copy_to_the_host_is_compared_at_once(mended: bool) -> Any:
    here = torch.arange(6.0)
    back = here.to(NAME).to("cpu", non_blocking=not mended)  # first
    return torch.norm(here - back).item(), 0.0  # second


@race("Comfy-Org/ComfyUI#6124")
def event_is_asked_once_and_the_answer_dropped(mended: bool) -> Any:
    host = on_gpu(4.0).to("cpu", non_blocking=True)  # first
    done = cuda.current_stream().record_event()
    while not done.query() and mended:
        pass
    return host.tolist(), [4.0] * 6  # second


@race("ROCm/pytorch#3194")
def consumer_does_not_wait_for_the_copying_stream(mended: bool) -> Any:
    side, weight, target = cuda.Stream(), torch.full((6,), 7.0).pin_memory(), on_gpu(1.0)
    with cuda.stream(side):
        target.copy_(weight, non_blocking=True)  # first
    if mended:
        cuda.current_stream().wait_stream(side)
    return (target * 2).tolist(), [14.0] * 6  # second


@race("huggingface/trl#7195")
def clone_comes_after_the_event(mended: bool) -> Any:
    transfer, x = cuda.Stream(), on_gpu(1.0)
    if not mended:
        transfer.wait_stream(cuda.current_stream())
    saved = (x + 4).clone()  # first
    if mended:
        transfer.wait_stream(cuda.current_stream())
    with cuda.stream(transfer):
        moved = saved * 1  # second
    transfer.synchronize()
    return moved.tolist(), [5.0] * 6


@race("huggingface/trl#7195, its first")
def stream_that_was_current_once_is_synchronized(mended: bool) -> Any:
    at_start, now = cuda.current_stream(), cuda.Stream()
    with cuda.stream(now):
        host = (on_gpu(2.0) + 1).to("cpu", non_blocking=True)  # first
    (now if mended else at_start).synchronize()
    return (host * 1).tolist(), [3.0] * 6  # second


@race("deepspeedai/DeepSpeed#7898")
def default_stream_is_waited_for_where_another_is_current(mended: bool) -> Any:
    forward, reduction, default = cuda.Stream(), cuda.Stream(), cuda.current_stream()
    with cuda.stream(forward):
        grad = on_gpu(3.0) * 2  # first
        reduction.wait_stream(forward if mended else default)
    with cuda.stream(reduction):
        reduced = grad / 2  # second
    reduction.synchronize()
    return reduced.tolist(), [3.0] * 6


@race("sgl-project/sglang#26376")
def schedule_writes_lengths_that_a_forward_still_reads(mended: bool) -> Any:
    forward, lengths = cuda.Stream(), on_gpu(4.0)
    with cuda.stream(forward):
        positions = lengths - 1  # first
    if mended:
        cuda.current_stream().wait_stream(forward)
    lengths.add_(1)  # second
    cuda.synchronize()
    return positions.tolist(), [3.0] * 6


@race("deepspeedai/DeepSpeed#8061")
def only_one_of_two_producers_is_waited_for(mended: bool) -> Any:
    producers, reduction = [cuda.Stream(), cuda.Stream()], cuda.Stream()
    bucket = on_gpu(0.0)
    for i, stream in enumerate(producers):
        with cuda.stream(stream):
            bucket[3 * i : 3 * i + 3].add_(1)  # first
    for stream in producers if mended else producers[:1]:
        reduction.wait_stream(stream)
    with cuda.stream(reduction):
        reduced = bucket / 2  # second
    reduction.synchronize()
    return reduced.tolist(), [0.5] * 6


@race("meta-pytorch/torchrec#4231")
def memory_is_reused_while_a_stream_copies_it(mended: bool) -> Any:
    copying, source = cuda.Stream(), on_gpu(0.0)  # no poison
    copying.wait_stream(cuda.current_stream())
    host = torch.zeros(6, pin_memory=True)
    with cuda.stream(copying):
        host.copy_(source + 0, non_blocking=True) if mended else None
        kept = source * 1  # first
    if mended:
        source.record_stream(copying)
    source.untyped_storage().resize_(0)
    torch.full((6,), -1.0, device=NAME)  # second
    cuda.synchronize()
    return kept.tolist(), [0.0] * 6


@race("meta-pytorch/torchtune#1867")
def activation_is_deleted_while_it_is_brought_back(mended: bool) -> Any:
    side, saved = cuda.Stream(), torch.full((6,), 2.0).pin_memory()
    with cuda.stream(side):
        back = saved.to(NAME, non_blocking=True)
    cuda.current_stream().wait_stream(side)
    grad = back * 5  # first
    if mended:
        back.record_stream(cuda.current_stream())
    del back
    with cuda.stream(side):
        torch.zeros(6, device=NAME)  # second
    return grad.tolist(), [10.0] * 6


@race("docs.pytorch.org/docs/stable/notes/cuda.html, streams of two devices")
def other_device_does_not_wait(mended: bool) -> Any:
    first, side = on_gpu(6.0), cuda.Stream(f"{NAME}:1")
    there = first.to(f"{NAME}:1")  # first
    with cuda.stream(side):
        if mended:
            side.wait_stream(cuda.current_stream(0))
        moved = there + 1  # second
    side.synchronize()
    return moved.tolist(), [7.0] * 6


def in_group() -> None:
    if not dist.is_initialized():
        name = "nccl" if NAME == "cuda" else "cpu:gloo,sim:simccl"
        dist.init_process_group(name, store=dist.HashStore(), rank=0, world_size=1)


@race("docs.pytorch.org/docs/stable/distributed.html, asynchronous collectives")
def result_of_a_collective_is_used_at_once(mended: bool) -> Any:
    in_group()
    source, target = on_gpu(3.0), on_gpu(0.0)
    work = dist.all_gather_into_tensor(target, source, async_op=True)  # first
    if mended:
        work.wait()
    doubled = target * 2  # second
    work.wait()
    return doubled.tolist(), [6.0] * 6


@race("docs.pytorch.org/docs/stable/distributed.html, their inputs")
def input_of_a_collective_is_overwritten(mended: bool) -> Any:
    in_group()
    source, target = on_gpu(3.0), on_gpu(0.0)
    work = dist.all_gather_into_tensor(target, source, async_op=True)  # first
    if mended:
        work.wait()
    source.fill_(9.0)  # second
    work.wait()
    return target.tolist(), [3.0] * 6


# -- that only look so ----------------------------------------------------------------------------


@no_race
def streams_share_a_storage_but_no_bytes() -> Any:
    buffer, side = torch.zeros(4, 4, device=NAME), cuda.Stream()
    side.wait_stream(cuda.current_stream())
    with cuda.stream(side):
        buffer[:2].fill_(1)
        buffer[2:, ::2].fill_(2)  # columns
    buffer[2:, 1::2].fill_(3)
    cuda.current_stream().wait_stream(side)
    return buffer.tolist(), [[1.0] * 4] * 2 + [[2.0, 3.0] * 2] * 2


@no_race
def threads_hand_over() -> Any:
    found: list[Any] = []
    made = threading.Thread(target=lambda: found.append(on_gpu(2.0) * 2))
    made.start()
    made.join()
    return (found[0] + 1).tolist(), [5.0] * 6


@no_race
def streams_write_the_same_value() -> Any:
    flag, side = on_gpu(1.0), cuda.Stream()
    with cuda.stream(side):
        flag.fill_(2.0)
    flag.fill_(2.0)
    return flag.tolist(), [2.0] * 6


@no_race
def pinned_source_is_dropped() -> Any:
    # pytorch/pytorch#130785: torch's allocator keeps it until the copy is done.
    copied = torch.full((6,), 3.0).pin_memory().to(NAME, non_blocking=True)
    torch.zeros(6).pin_memory()
    return copied.tolist(), [3.0] * 6


@no_race
def pageable_memory_is_staged() -> Any:
    source = torch.ones(6)
    copied = source.to(NAME, non_blocking=True)
    source.fill_(9)
    back = torch.zeros(6)
    back.copy_(copied, non_blocking=True)  # waits
    return back.tolist(), [1.0] * 6


@no_race
def loader_pins_in_a_thread() -> Any:
    data = torch.utils.data.TensorDataset(torch.arange(8.0))
    loader = torch.utils.data.DataLoader(data, batch_size=2, pin_memory=True)
    total = on_gpu(0.0, 1)
    for (batch,) in loader:
        total += batch.to(NAME, non_blocking=True).sum()
    return total.tolist(), [28.0]


@no_race
def pinned_memory_goes_there_and_back() -> Any:
    host = torch.zeros(6, pin_memory=True)
    host.copy_(on_gpu(2.0), non_blocking=True)
    return (host.to(NAME, non_blocking=True) + 1).tolist(), [3.0] * 6


@no_race
def backward_runs_on_the_streams_of_the_forward() -> Any:
    weight, side = on_gpu(3.0).requires_grad_(), cuda.Stream()
    side.wait_stream(cuda.current_stream())
    with cuda.stream(side):
        loss = (weight * weight).sum()
    cuda.current_stream().wait_stream(side)
    loss.backward()
    return weight.grad.tolist(), [6.0] * 6


@no_race
def stream_waits_for_the_future_of_a_collective() -> Any:
    in_group()
    x, other = on_gpu(2.0), cuda.Stream()
    future = dist.all_reduce(x, async_op=True).get_future()
    with cuda.stream(other):
        future.wait()
        x.div_(2)
    other.synchronize()
    return x.tolist(), [1.0] * 6


@no_race
def event_is_recorded_again_and_one_never() -> Any:
    x, side, event = on_gpu(1.0), cuda.Stream(), cuda.Event()
    assert cuda.Event().query()
    cuda.Event().wait(side)
    x.add_(1)
    event.record()
    event.wait(side)
    y = x * 3  # not waited for, and not used there
    event.record()
    with cuda.stream(side):
        z = x + 1
    cuda.current_stream().wait_stream(side)
    return (y + z).tolist(), [9.0] * 6


@no_race
def time_between_events_is_known_once_they_are_over() -> Any:
    begin, end = (torch.Event(NAME, enable_timing=True) for _ in range(2))
    for event in (begin, end):
        on_gpu().add_(1)
        event.record()
    try:
        found = begin.elapsed_time(end)
    except RuntimeError:
        cuda.synchronize()
        found = begin.elapsed_time(end)
        return found >= 0, True
    return found, "an error"


@no_race
def operators_that_wait() -> Any:
    host = on_gpu(2.0).to("cpu", non_blocking=True)
    on_gpu(1.0).nonzero()  # the host learns how many
    return host.tolist(), [2.0] * 6
