"""The operators of ``c10d`` that only move, under their own names and with their arguments."""
# ruff: noqa: D103, PLR0913, PLR0917  torch's documentation describes them

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch._C import _distributed_c10d

from unidev_torch_simulator.distributed import checks, names
from unidev_torch_simulator.distributed.calling import (
    begin,
    bytes_of,
    fill,
    flattened,
    numels,
    parts_of,
    room_for,
    row_of,
)  # fmt: skip

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unidev_torch_simulator.distributed.works import Call

    Tensors = Sequence[torch.Tensor]

c10d: Any = _distributed_c10d


def broadcast_(
    tensors: Tensors, group: Any, root: int, root_tensor: int, is_async: bool = True,  # noqa: ARG001
    timeout: int = -1,
) -> Any:  # fmt: skip
    call = begin("BROADCAST", group, tensors, tensors, is_async=is_async, timeout=timeout)
    is_root = call.backend.rank() == root
    hosts = [bytes_of(each) if is_root else room_for(each) for each in tensors]
    options = call.options(c10d.BroadcastOptions, rootRank=root)

    def back() -> None:
        if not is_root:
            for tensor, host in zip(tensors, hosts, strict=True):
                fill(tensor, host)

    def start() -> list[Any]:
        return [call.backend_call("broadcast", [h], options) for h in hosts if h.numel()]

    return tensors, call.run(start, back).boxed()


def _start_gather(call: Call, room: Tensors, host: torch.Tensor) -> list[Any]:
    if len(set(numels(room))) == 1:
        text = "Tensor list must have identical number of elements"
        checks.check_numel(host.numel(), room[0].numel(), text)
        options = call.options(c10d.AllgatherOptions)
        return [call.backend_call("allgather", [room], [host], options)] if host.numel() else []
    works = []
    for root, each in enumerate(room):  # NCCL's group, too, broadcasts parts that differ in size
        if root == call.backend.rank():
            each.copy_(host)
        options = call.options(c10d.BroadcastOptions, rootRank=root)
        if each.numel():
            works.append(call.backend_call("broadcast", [each], options))
    return works


def _all_gather(call: Call, pairs: Sequence[tuple[Tensors, torch.Tensor]]) -> Any:
    """Gather each second of ``pairs`` into its first, a tensor for each rank."""
    size = call.backend.size()
    rooms = [[room_for(each) for each in outputs] for outputs, _ in pairs]
    hosts = [bytes_of(source) for _, source in pairs]
    for outputs, source in pairs:
        checks.check_same_dtype([*outputs, source], "Tensor list must have identical type")
        text = "Tensor list must have one tensor for each rank"
        checks.check_numel(len(outputs), size, text)

    def start() -> list[Any]:
        return [
            work
            for room, host in zip(rooms, hosts, strict=True)
            for work in _start_gather(call, room, host)
        ]

    def back() -> None:
        for (outputs, _), room in zip(pairs, rooms, strict=True):
            for output, each in zip(outputs, room, strict=True):
                fill(output, each)

    return call.run(start, back)


def allgather_(
    outputs: Sequence[Tensors], inputs: Tensors, group: Any, is_async: bool = True,
    timeout: int = -1,
) -> Any:  # fmt: skip
    flat = flattened(outputs)
    call = begin("ALLGATHER", group, flat, inputs, is_async=is_async, timeout=timeout)
    return outputs, _all_gather(call, list(zip(outputs, inputs, strict=True))).boxed()


def allgather_coalesced_(
    outputs: Sequence[Tensors], inputs: Tensors, group: Any, is_async: bool = True
) -> Any:
    call = begin("ALLGATHER_COALESCED", group, flattened(outputs), inputs, is_async=is_async)
    if call.is_nccl:
        kind = names.current().title
        raise NotImplementedError(f"ProcessGroup{kind} does not support allgather_coalesced")
    return _all_gather(call, list(zip(outputs, inputs, strict=True))).boxed()


def _split(call: Call, output: torch.Tensor, source: torch.Tensor) -> Tensors:
    text = "output tensor must have the same type as input tensor"
    checks.check_same_dtype([output, source], text)
    size = call.backend.size()
    text = "output tensor size must be equal to world_size times input tensor size"
    checks.check_numel(output.numel(), source.numel() * size, text)
    parts: Tensors = row_of(output).chunk(size) if output.numel() else [row_of(output)] * size
    return parts


def _allgather_base_(
    output: torch.Tensor, source: torch.Tensor, group: Any, is_async: bool = True,
    timeout: int = -1,
) -> Any:  # fmt: skip
    call = begin("_ALLGATHER_BASE", group, [output], [source], is_async=is_async, timeout=timeout)
    pairs = [(_split(call, output, source), row_of(source))]
    return output, _all_gather(call, pairs).boxed()


def allgather_into_tensor_coalesced_(
    outputs: Tensors, inputs: Tensors, group: Any, is_async: bool = True
) -> Any:
    call = begin("ALLGATHER_INTO_TENSOR_COALESCED", group, outputs, inputs, is_async=is_async)
    pairs = [(_split(call, o, i), row_of(i)) for o, i in zip(outputs, inputs, strict=True)]
    return _all_gather(call, pairs).boxed()


def _check_root(call: Call, kind: str, listed: Tensors, own: torch.Tensor) -> None:
    """Raise unless the root's list has a tensor like ``own`` for each rank."""
    text = f"Incorrect {kind} list size {len(listed)}. {kind.capitalize()} list size should be "
    checks.check_numel(len(listed), call.backend.size(), text + f"{call.backend.size()}")
    for each in listed:
        checks.check_numel(each.numel(), own.numel(), "Tensor sizes must match")
    checks.check_same_dtype([own, *listed], "Tensor list must have identical type")


def gather_(
    outputs: Sequence[Tensors], inputs: Tensors, group: Any, root: int, is_async: bool = True,
    timeout: int = -1,
) -> Any:  # fmt: skip
    flat = flattened(outputs)
    call = begin("GATHER", group, flat, inputs, is_async=is_async, timeout=timeout)
    (source,) = inputs
    is_root = call.backend.rank() == root
    if is_root:
        _check_root(call, "output", flat, source)
    host, room = bytes_of(source), [room_for(each) for each in flat]
    options = call.options(c10d.GatherOptions, rootRank=root)

    def start() -> list[Any]:
        given = [room] if is_root else []
        return [call.backend_call("gather", given, [host], options)] if host.numel() else []

    def back() -> None:
        for output, each in zip(flat, room, strict=True):
            fill(output, each)

    return call.run(start, back).boxed()


def scatter_(
    outputs: Tensors, inputs: Sequence[Tensors], group: Any, root: int, is_async: bool = True,
    timeout: int = -1,
) -> Any:  # fmt: skip
    flat = flattened(inputs)
    call = begin("SCATTER", group, outputs, flat, is_async=is_async, timeout=timeout)
    (output,) = outputs
    is_root = call.backend.rank() == root
    if is_root:
        _check_root(call, "input", flat, output)
    hosts, room = [bytes_of(each) for each in flat], room_for(output)
    options = call.options(c10d.ScatterOptions, rootRank=root)

    def start() -> list[Any]:
        given = [hosts] if is_root else []
        return [call.backend_call("scatter", [room], given, options)] if room.numel() else []

    return outputs, call.run(start, lambda: fill(output, room)).boxed()


def _all_to_all(
    call: Call, outputs: Tensors, inputs: Tensors, counts: tuple[list[int], list[int]]
) -> Any:
    """Exchange host memory: ``counts`` of bytes from and to each rank."""
    source = torch.cat([bytes_of(each) for each in inputs])
    room = torch.empty(sum(counts[0]), dtype=torch.uint8)
    options = call.options(c10d.AllToAllOptions)

    def back() -> None:
        sizes = [each.numel() * each.element_size() for each in outputs]
        for output, part in zip(outputs, parts_of(room, sizes), strict=True):
            fill(output, part)

    return call.run(
        lambda: [call.backend_call("alltoall_base", room, source, *counts, options)], back
    )


def alltoall_(
    outputs: Tensors, inputs: Tensors, group: Any, is_async: bool = True, timeout: int = -1
) -> Any:
    call = begin("ALLTOALL", group, outputs, inputs, is_async=is_async, timeout=timeout)
    checks.check_same_dtype([*outputs, *inputs], "Tensor list must have identical type")
    text = "Tensor list must have one tensor for each rank"
    checks.check_numel(len(outputs), call.backend.size(), text)
    checks.check_numel(len(inputs), call.backend.size(), text)
    width = outputs[0].element_size()
    counts = [n * width for n in numels(outputs)], [n * width for n in numels(inputs)]
    return outputs, _all_to_all(call, outputs, inputs, counts).boxed()


def alltoall_base_(
    output: torch.Tensor, source: torch.Tensor, group: Any, output_splits: Sequence[int],
    input_splits: Sequence[int], is_async: bool = True, timeout: int = -1,
) -> Any:  # fmt: skip
    call = begin("ALLTOALL_BASE", group, [output], [source], is_async=is_async, timeout=timeout)
    checks.check_same_dtype([output, source], "Tensors are not of equal type")

    def counts(tensor: torch.Tensor, splits: Sequence[int]) -> list[int]:
        rows = tensor.size(0) if tensor.dim() else 0
        width = (tensor.numel() // rows if rows else 0) * tensor.element_size()
        return checks.check_splits(width, rows, splits, call.backend.size())

    sizes = counts(output, output_splits), counts(source, input_splits)
    return _all_to_all(call, [output], [source], sizes).boxed()


def barrier(
    tensor: torch.Tensor, group: Any, device_ids: Sequence[int], is_async: bool = True,  # noqa: ARG001
    timeout: int = -1,
) -> Any:  # fmt: skip
    # Not the tensor's GPU, which is the current one: NCCL, too, makes another.
    kind = names.current().device
    given = [
        torch.empty(1, dtype=torch.uint8, device=torch.device(kind, each))
        for each in device_ids[:1]
    ]
    call = begin("BARRIER", group, [], given, is_async=is_async, timeout=timeout)
    call.numel_in = 1
    options = call.options(c10d.BarrierOptions)
    return call.run(lambda: [call.backend_call("barrier", options)], lambda: None).boxed()
