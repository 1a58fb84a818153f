"""The operators of ``c10d`` that reduce, under their own names and with their arguments."""
# ruff: noqa: D103, PLR0913, PLR0917  torch's documentation describes them

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch._C import _distributed_c10d

from unidev_torch_simulator.distributed import checks
from unidev_torch_simulator.distributed.calling import (
    begin,
    fill,
    flattened,
    on_host,
    parts_of,
    row_of,
)  # fmt: skip

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unidev_torch_simulator.distributed.works import Call

    Tensors = Sequence[torch.Tensor]

c10d: Any = _distributed_c10d


class _Reduction:
    """An operation of NCCL's, as one of gloo's on host memory with a step before and after."""

    def __init__(self, call: Call, boxed: Any) -> None:
        self.name = c10d.ReduceOp.RedOpType(boxed.op()).name
        self._boxed = boxed
        self._call = call
        self._size = call.backend.size()

    def operand(self, host: torch.Tensor) -> torch.Tensor:
        """What gloo reduces; ``host`` may be changed."""
        if not self._call.is_nccl:
            return host
        checks.check_reduction(self.name, host.dtype)
        if host.dtype is torch.bool:
            return host.view(torch.uint8)
        if self.name == "PREMUL_SUM":
            factor = torch.ops.unidev_sim.premul_factor(self._boxed)
            host.mul_(factor.to("cpu", host.dtype))
        elif self.name == "AVG" and host.is_floating_point():
            host.div_(self._size)
        return host

    def op(self, dtype: torch.dtype) -> Any:
        """Gloo's operation for tensors of ``dtype``."""
        name = self.name
        if self._call.is_nccl:
            if dtype is torch.bool and name == "SUM":
                name = "MAX"  # as in NCCL's group: 1 + 1 is 1
            elif name in ("AVG", "PREMUL_SUM"):
                name = "SUM"
        return getattr(c10d.ReduceOp, name)

    def finish(self, host: torch.Tensor) -> torch.Tensor:
        """The result of the operation, from gloo's."""
        if self._call.is_nccl and self.name == "AVG" and not host.is_floating_point():
            host.div_(self._size, rounding_mode="trunc")
        return host


def _operand(reduction: _Reduction, tensors: Tensors) -> torch.Tensor:
    """What gloo reduces of these tensors, one after the other, in host memory."""
    parts = [on_host(tensor) for tensor in tensors]
    return reduction.operand(parts[0] if len(parts) == 1 else torch.cat(parts))


def _started(call: Call, reduction: _Reduction, hosts: Tensors, dtypes: Any) -> list[Any]:
    """An all-reduce of gloo's, in place, for each of ``hosts`` that has elements."""
    return [
        call.backend_call("allreduce", [host], call.options(
            c10d.AllreduceOptions, reduceOp=reduction.op(dtype)
        ))
        for dtype, host in zip(dtypes, hosts, strict=True) if host.numel()
    ]  # fmt: skip


def _all_reduce(call: Call, tensors: Tensors, boxed: Any) -> Any:
    reduction = _Reduction(call, boxed)
    buckets: dict[torch.dtype, list[torch.Tensor]] = {}
    for tensor in tensors:
        buckets.setdefault(tensor.dtype, []).append(tensor)
    hosts = [_operand(reduction, each) for each in buckets.values()]

    def back() -> None:
        for each, host in zip(buckets.values(), hosts, strict=True):
            sizes = [row_of(tensor).numel() for tensor in each]
            for tensor, part in zip(each, parts_of(reduction.finish(host), sizes), strict=True):
                fill(tensor, part)

    return call.run(lambda: _started(call, reduction, hosts, buckets), back)


def allreduce_(
    tensors: Tensors, group: Any, op: Any, sparse: Any, is_async: bool = True, timeout: int = -1,  # noqa: ARG001
) -> Any:  # fmt: skip
    call = begin("ALLREDUCE", group, tensors, tensors, is_async=is_async, timeout=timeout)
    return tensors, _all_reduce(call, tensors, op).boxed()


def allreduce_coalesced_(
    tensors: Tensors, group: Any, op: Any, is_async: bool = True, timeout: int = -1
) -> Any:
    call = begin("ALLREDUCE_COALESCED", group, tensors, tensors, is_async=is_async, timeout=timeout)
    return _all_reduce(call, tensors, op).boxed()


def reduce_(
    tensors: Tensors, group: Any, op: Any, root: int, root_tensor: int, is_async: bool = True,  # noqa: ARG001
    timeout: int = -1,
) -> Any:  # fmt: skip
    call = begin("REDUCE", group, tensors, tensors, is_async=is_async, timeout=timeout)
    reduction = _Reduction(call, op)
    (tensor,) = tensors
    host = reduction.operand(on_host(tensor))
    options = call.options(c10d.ReduceOptions, reduceOp=reduction.op(tensor.dtype), rootRank=root)

    def back() -> None:
        if call.backend.rank() == root:
            fill(tensor, reduction.finish(host))

    return call.run(lambda: [call.backend_call("reduce", [host], options)], back).boxed()


def _reduce_scatter(call: Call, pairs: Sequence[tuple[torch.Tensor, Tensors]], op: Any) -> Any:
    """By all-reduces, of which each rank keeps its part: gloo's own takes equal parts only."""
    reduction = _Reduction(call, op)
    hosts = [_operand(reduction, inputs) for _, inputs in pairs]
    dtypes = [output.dtype for output, _ in pairs]

    def back() -> None:
        rank = call.backend.rank()
        for (output, inputs), host in zip(pairs, hosts, strict=True):
            count = row_of(output).numel()
            first = rank * count
            if len(inputs) > 1:
                first = sum(row_of(each).numel() for each in inputs[:rank])
            fill(output, reduction.finish(host[first : first + count]))

    return call.run(lambda: _started(call, reduction, hosts, dtypes), back)


def reduce_scatter_(
    outputs: Tensors, inputs: Sequence[Tensors], group: Any, op: Any, is_async: bool = True,
    timeout: int = -1,
) -> Any:  # fmt: skip
    flat = flattened(inputs)
    call = begin("REDUCE_SCATTER", group, outputs, flat, is_async=is_async, timeout=timeout)
    checks.check_same_dtype([*outputs, *flat], "Tensor list must have identical type")
    for output, each in zip(outputs, inputs, strict=True):
        text = "Tensor list must have one tensor for each rank"
        checks.check_numel(len(each), call.backend.size(), text)
        text = "Tensor list must have identical number of elements at this rank"
        checks.check_numel(each[call.backend.rank()].numel(), output.numel(), text)
    pairs = list(zip(outputs, inputs, strict=True))
    return outputs, _reduce_scatter(call, pairs, op).boxed()


def _check_scattered(call: Call, output: torch.Tensor, source: torch.Tensor) -> None:
    text = "input tensor must be the same type as the output tensor."
    checks.check_same_dtype([output, source], text)
    text = "input tensor must be the same size as output size times world size"
    checks.check_numel(source.numel(), output.numel() * call.backend.size(), text)


def _reduce_scatter_base_(
    output: torch.Tensor, source: torch.Tensor, group: Any, op: Any, is_async: bool = True,
    timeout: int = -1,
) -> Any:  # fmt: skip
    call = begin(
        "_REDUCE_SCATTER_BASE", group, [output], [source], is_async=is_async, timeout=timeout
    )
    _check_scattered(call, output, source)
    return output, _reduce_scatter(call, [(output, [source])], op).boxed()


def reduce_scatter_tensor_coalesced_(
    outputs: Tensors, inputs: Tensors, group: Any, op: Any, is_async: bool = True,
    timeout: int = -1,
) -> Any:  # fmt: skip
    call = begin(
        "REDUCE_SCATTER_TENSOR_COALESCED", group, outputs, inputs, is_async=is_async,
        timeout=timeout,
    )  # fmt: skip
    pairs = []
    for output, source in zip(outputs, inputs, strict=True):
        _check_scattered(call, output, source)
        pairs.append((output, [source]))
    return _reduce_scatter(call, pairs, op).boxed()
