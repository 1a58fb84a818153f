"""The operators ``c10d::…`` for tensors on simulated GPUs, through host memory.

Each bears its operator's name and takes its arguments. Tensors cross as one row of elements, or of
bytes where nothing is reduced: NCCL compares numbers of elements, gloo shapes and dtypes.
"""
# ruff: noqa: D103, PLR0913, PLR0917  torch's documentation describes them

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import torch
from torch._C import _distributed_c10d

from unidev_torch.simulator.cuda.nccl import checks
from unidev_torch.simulator.cuda.nccl.backend import ProcessGroupNCCL
from unidev_torch.simulator.cuda.nccl.works import Call, Transfers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Tensors = Sequence[torch.Tensor]

c10d: Any = _distributed_c10d
_KEY = "CUDA"
_kept: list[Any] = []
"""The registrations, which end with their objects."""


def register() -> None:
    """Register the kernels, and for other operators of ``c10d`` one that refuses by name."""
    library = torch._C._dispatch_library("IMPL", "c10d", "", __file__, 1)
    _kept.append(library)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in operators():
            library.impl(name, _KEY, KERNELS.get(name) or _refusing(name))
        library.impl("allreduce_", f"Sparse{_KEY}", _refusing("allreduce_ of sparse tensors"))


def operators() -> list[str]:
    """The operators of ``c10d`` that torch's own library calls with tensors of ``cuda``."""
    return [
        name.removeprefix("c10d::")
        for name in torch._C._dispatch_get_all_op_names()
        if name.startswith("c10d::") and torch._C._dispatch_has_kernel_for_dispatch_key(name, _KEY)
    ]


def _refusing(name: str) -> Callable[..., Any]:
    def refuse(*_: Any) -> Any:
        raise NotImplementedError(
            f"GPUs simulated by unidev have no c10d::{name}: gloo, which would do its work, reads "
            "host memory only"
        )

    return refuse


# -- from arguments to a call ---------------------------------------------------------------------


def _begin(
    name: str, group: Any, outputs: Tensors, inputs: Tensors, *, is_async: bool = True,
    timeout: int = -1, peer: int | None = None,
) -> Call:  # fmt: skip
    tensors = [*outputs, *inputs]
    group = c10d.ProcessGroup.unbox(group)
    backend = group._get_backend(torch.device("cuda"))
    if isinstance(backend, c10d._ProcessGroupWrapper):  # TORCH_DISTRIBUTED_DEBUG=DETAIL
        backend = backend.wrapped_pg
    is_nccl = isinstance(backend, ProcessGroupNCCL)
    call = Call(
        name, backend, is_nccl, is_async, timeout, list(outputs), sum(t.numel() for t in inputs)
    )
    if is_nccl:
        backend.check_usable()
        backend.calls += 1
        call.number = backend.calls
    elif group.name() == "nccl":  # shut down: of its backend gloo's part is left
        raise checks.aborted(group.rank())
    checks.check_tensors(tensors, is_nccl=is_nccl)
    if is_nccl:
        ranks = range(group.size()) if peer is None else (peer,)
        try:
            backend.meet(tensors[0].device if tensors else torch.device("cuda"), ranks)
        except RuntimeError as error:
            raise call.failure(error) from error
    return call


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    """The elements in the order in which they lie in memory."""
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.detach())
    return tensor.detach().as_strided((tensor.numel(),), (1,))


def _host(tensor: torch.Tensor) -> torch.Tensor:
    return _flat(tensor).cpu()


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The bytes of ``tensor``, copied to host memory."""
    return _host(tensor).view(torch.uint8)


def _room(tensor: torch.Tensor, numel: int | None = None) -> torch.Tensor:
    """Host memory for the bytes of a tensor like this one."""
    count = tensor.numel() if numel is None else numel
    return torch.empty(count * tensor.element_size(), dtype=torch.uint8)


def _fill(tensor: torch.Tensor, host: torch.Tensor) -> None:
    """Copy bytes, or elements, to the GPU."""
    flat = _flat(tensor)
    flat.copy_(host if host.dtype is flat.dtype else host.view(flat.dtype))


def _parts(host: torch.Tensor, sizes: list[int]) -> Tensors:
    parts: Tensors = host.split(sizes)  # type: ignore[no-untyped-call]
    return parts


def _numels(tensors: Tensors) -> list[int]:
    return [tensor.numel() for tensor in tensors]


def _flattened(lists: Sequence[Tensors]) -> list[torch.Tensor]:
    return [tensor for each in lists for tensor in each]


# -- reductions -----------------------------------------------------------------------------------


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


def _all_reduce(call: Call, tensors: Tensors, boxed: Any) -> Any:
    reduction = _Reduction(call, boxed)
    buckets: dict[torch.dtype, list[torch.Tensor]] = {}
    for tensor in tensors:
        buckets.setdefault(tensor.dtype, []).append(tensor)
    hosts = []
    for each in buckets.values():
        parts = [_host(tensor) for tensor in each]
        hosts.append(reduction.operand(parts[0] if len(parts) == 1 else torch.cat(parts)))

    def start() -> list[Any]:
        return [
            call.backend_call("allreduce", [host], call.options(
                c10d.AllreduceOptions, reduceOp=reduction.op(dtype)
            ))
            for dtype, host in zip(buckets, hosts, strict=True) if host.numel()
        ]  # fmt: skip

    def back() -> None:
        for each, host in zip(buckets.values(), hosts, strict=True):
            sizes = [_flat(tensor).numel() for tensor in each]
            for tensor, part in zip(each, _parts(reduction.finish(host), sizes), strict=True):
                _fill(tensor, part)

    return call.run(start, back)


def allreduce_(
    tensors: Tensors, group: Any, op: Any, sparse: Any, is_async: bool = True, timeout: int = -1,  # noqa: ARG001
) -> Any:  # fmt: skip
    call = _begin("ALLREDUCE", group, tensors, tensors, is_async=is_async, timeout=timeout)
    return tensors, _all_reduce(call, tensors, op).boxed()


def allreduce_coalesced_(
    tensors: Tensors, group: Any, op: Any, is_async: bool = True, timeout: int = -1
) -> Any:
    call = _begin(
        "ALLREDUCE_COALESCED", group, tensors, tensors, is_async=is_async, timeout=timeout
    )
    return _all_reduce(call, tensors, op).boxed()


def reduce_(
    tensors: Tensors, group: Any, op: Any, root: int, root_tensor: int, is_async: bool = True,  # noqa: ARG001
    timeout: int = -1,
) -> Any:  # fmt: skip
    call = _begin("REDUCE", group, tensors, tensors, is_async=is_async, timeout=timeout)
    reduction = _Reduction(call, op)
    (tensor,) = tensors
    host = reduction.operand(_host(tensor))
    options = call.options(c10d.ReduceOptions, reduceOp=reduction.op(tensor.dtype), rootRank=root)

    def back() -> None:
        if call.backend.rank() == root:
            _fill(tensor, reduction.finish(host))

    return call.run(lambda: [call.backend_call("reduce", [host], options)], back).boxed()


def _reduce_scatter(call: Call, pairs: Sequence[tuple[torch.Tensor, Tensors]], op: Any) -> Any:
    """By all-reduces, of which each rank keeps its part: gloo's own takes equal parts only."""
    reduction = _Reduction(call, op)
    hosts = []
    for _, inputs in pairs:
        parts = [_host(each) for each in inputs]
        hosts.append(reduction.operand(parts[0] if len(parts) == 1 else torch.cat(parts)))
    dtypes = [output.dtype for output, _ in pairs]

    def start() -> list[Any]:
        return [
            call.backend_call("allreduce", [host], call.options(
                c10d.AllreduceOptions, reduceOp=reduction.op(dtype)
            ))
            for dtype, host in zip(dtypes, hosts, strict=True) if host.numel()
        ]  # fmt: skip

    def back() -> None:
        rank = call.backend.rank()
        for (output, inputs), host in zip(pairs, hosts, strict=True):
            count = _flat(output).numel()
            first = rank * count
            if len(inputs) > 1:
                first = sum(_flat(each).numel() for each in inputs[:rank])
            _fill(output, reduction.finish(host[first : first + count]))

    return call.run(start, back)


def reduce_scatter_(
    outputs: Tensors, inputs: Sequence[Tensors], group: Any, op: Any, is_async: bool = True,
    timeout: int = -1,
) -> Any:  # fmt: skip
    flat = _flattened(inputs)
    call = _begin("REDUCE_SCATTER", group, outputs, flat, is_async=is_async, timeout=timeout)
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
    call = _begin(
        "_REDUCE_SCATTER_BASE", group, [output], [source], is_async=is_async, timeout=timeout
    )
    _check_scattered(call, output, source)
    return output, _reduce_scatter(call, [(output, [source])], op).boxed()


def reduce_scatter_tensor_coalesced_(
    outputs: Tensors, inputs: Tensors, group: Any, op: Any, is_async: bool = True,
    timeout: int = -1,
) -> Any:  # fmt: skip
    call = _begin(
        "REDUCE_SCATTER_TENSOR_COALESCED", group, outputs, inputs, is_async=is_async,
        timeout=timeout,
    )  # fmt: skip
    pairs = []
    for output, source in zip(outputs, inputs, strict=True):
        _check_scattered(call, output, source)
        pairs.append((output, [source]))
    return _reduce_scatter(call, pairs, op).boxed()


# -- what only moves ------------------------------------------------------------------------------


def broadcast_(
    tensors: Tensors, group: Any, root: int, root_tensor: int, is_async: bool = True,  # noqa: ARG001
    timeout: int = -1,
) -> Any:  # fmt: skip
    call = _begin("BROADCAST", group, tensors, tensors, is_async=is_async, timeout=timeout)
    is_root = call.backend.rank() == root
    hosts = [_bytes(each) if is_root else _room(each) for each in tensors]
    options = call.options(c10d.BroadcastOptions, rootRank=root)

    def back() -> None:
        if not is_root:
            for tensor, host in zip(tensors, hosts, strict=True):
                _fill(tensor, host)

    def start() -> list[Any]:
        return [call.backend_call("broadcast", [h], options) for h in hosts if h.numel()]

    return tensors, call.run(start, back).boxed()


def _start_gather(call: Call, room: Tensors, host: torch.Tensor) -> list[Any]:
    if len(set(_numels(room))) == 1:
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
    rooms = [[_room(each) for each in outputs] for outputs, _ in pairs]
    hosts = [_bytes(source) for _, source in pairs]
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
                _fill(output, each)

    return call.run(start, back)


def allgather_(
    outputs: Sequence[Tensors], inputs: Tensors, group: Any, is_async: bool = True,
    timeout: int = -1,
) -> Any:  # fmt: skip
    flat = _flattened(outputs)
    call = _begin("ALLGATHER", group, flat, inputs, is_async=is_async, timeout=timeout)
    return outputs, _all_gather(call, list(zip(outputs, inputs, strict=True))).boxed()


def allgather_coalesced_(
    outputs: Sequence[Tensors], inputs: Tensors, group: Any, is_async: bool = True
) -> Any:
    call = _begin("ALLGATHER_COALESCED", group, _flattened(outputs), inputs, is_async=is_async)
    return _all_gather(call, list(zip(outputs, inputs, strict=True))).boxed()


def _split(call: Call, output: torch.Tensor, source: torch.Tensor) -> Tensors:
    text = "output tensor must have the same type as input tensor"
    checks.check_same_dtype([output, source], text)
    size = call.backend.size()
    text = "output tensor size must be equal to world_size times input tensor size"
    checks.check_numel(output.numel(), source.numel() * size, text)
    parts: Tensors = _flat(output).chunk(size) if output.numel() else [_flat(output)] * size
    return parts


def _allgather_base_(
    output: torch.Tensor, source: torch.Tensor, group: Any, is_async: bool = True,
    timeout: int = -1,
) -> Any:  # fmt: skip
    call = _begin("_ALLGATHER_BASE", group, [output], [source], is_async=is_async, timeout=timeout)
    pairs = [(_split(call, output, source), _flat(source))]
    return output, _all_gather(call, pairs).boxed()


def allgather_into_tensor_coalesced_(
    outputs: Tensors, inputs: Tensors, group: Any, is_async: bool = True
) -> Any:
    call = _begin("ALLGATHER_INTO_TENSOR_COALESCED", group, outputs, inputs, is_async=is_async)
    pairs = [(_split(call, o, i), _flat(i)) for o, i in zip(outputs, inputs, strict=True)]
    return _all_gather(call, pairs).boxed()


def gather_(
    outputs: Sequence[Tensors], inputs: Tensors, group: Any, root: int, is_async: bool = True,
    timeout: int = -1,
) -> Any:  # fmt: skip
    flat = _flattened(outputs)
    call = _begin("GATHER", group, flat, inputs, is_async=is_async, timeout=timeout)
    (source,) = inputs
    is_root = call.backend.rank() == root
    if is_root:
        text = f"Incorrect output list size {len(flat)}. Output list size should be "
        checks.check_numel(len(flat), call.backend.size(), text + f"{call.backend.size()}")
        for each in flat:
            checks.check_numel(each.numel(), source.numel(), "Tensor sizes must match")
        checks.check_same_dtype([source, *flat], "Tensor list must have identical type")
    host, room = _bytes(source), [_room(each) for each in flat]
    options = call.options(c10d.GatherOptions, rootRank=root)

    def start() -> list[Any]:
        given = [room] if is_root else []
        return [call.backend_call("gather", given, [host], options)] if host.numel() else []

    def back() -> None:
        for output, each in zip(flat, room, strict=True):
            _fill(output, each)

    return call.run(start, back).boxed()


def scatter_(
    outputs: Tensors, inputs: Sequence[Tensors], group: Any, root: int, is_async: bool = True,
    timeout: int = -1,
) -> Any:  # fmt: skip
    flat = _flattened(inputs)
    call = _begin("SCATTER", group, outputs, flat, is_async=is_async, timeout=timeout)
    (output,) = outputs
    is_root = call.backend.rank() == root
    if is_root:
        text = f"Incorrect input list size {len(flat)}. Input list size should be "
        checks.check_numel(len(flat), call.backend.size(), text + f"{call.backend.size()}")
        for each in flat:
            checks.check_numel(each.numel(), output.numel(), "Tensor sizes must match")
        checks.check_same_dtype([output, *flat], "Tensor list must have identical type")
    hosts, room = [_bytes(each) for each in flat], _room(output)
    options = call.options(c10d.ScatterOptions, rootRank=root)

    def start() -> list[Any]:
        given = [hosts] if is_root else []
        return [call.backend_call("scatter", [room], given, options)] if room.numel() else []

    return outputs, call.run(start, lambda: _fill(output, room)).boxed()


def _all_to_all(
    call: Call, outputs: Tensors, inputs: Tensors, counts: tuple[list[int], list[int]]
) -> Any:
    """Exchange host memory: ``counts`` of bytes from and to each rank."""
    source = torch.cat([_bytes(each) for each in inputs])
    room = torch.empty(sum(counts[0]), dtype=torch.uint8)
    options = call.options(c10d.AllToAllOptions)

    def back() -> None:
        sizes = [each.numel() * each.element_size() for each in outputs]
        for output, part in zip(outputs, _parts(room, sizes), strict=True):
            _fill(output, part)

    return call.run(
        lambda: [call.backend_call("alltoall_base", room, source, *counts, options)], back
    )


def alltoall_(
    outputs: Tensors, inputs: Tensors, group: Any, is_async: bool = True, timeout: int = -1
) -> Any:
    call = _begin("ALLTOALL", group, outputs, inputs, is_async=is_async, timeout=timeout)
    checks.check_same_dtype([*outputs, *inputs], "Tensor list must have identical type")
    text = "Tensor list must have one tensor for each rank"
    checks.check_numel(len(outputs), call.backend.size(), text)
    checks.check_numel(len(inputs), call.backend.size(), text)
    width = outputs[0].element_size()
    counts = [n * width for n in _numels(outputs)], [n * width for n in _numels(inputs)]
    return outputs, _all_to_all(call, outputs, inputs, counts).boxed()


def alltoall_base_(
    output: torch.Tensor, source: torch.Tensor, group: Any, output_splits: Sequence[int],
    input_splits: Sequence[int], is_async: bool = True, timeout: int = -1,
) -> Any:  # fmt: skip
    call = _begin("ALLTOALL_BASE", group, [output], [source], is_async=is_async, timeout=timeout)
    checks.check_same_dtype([output, source], "Tensors are not of equal type")

    def counts(tensor: torch.Tensor, splits: Sequence[int]) -> list[int]:
        rows = tensor.size(0) if tensor.dim() else 0
        width = (tensor.numel() // rows if rows else 0) * tensor.element_size()
        return checks.check_splits(width, rows, splits, call.backend.size())

    sizes = counts(output, output_splits), counts(source, input_splits)
    return _all_to_all(call, [output], [source], sizes).boxed()


def barrier(
    tensor: torch.Tensor, group: Any, device_ids: Sequence[int], is_async: bool = True,
    timeout: int = -1,
) -> Any:  # fmt: skip
    if device_ids:
        tensor = torch.empty(1, dtype=torch.uint8, device=torch.device("cuda", device_ids[0]))
    call = _begin("BARRIER", group, [], [tensor], is_async=is_async, timeout=timeout)
    options = call.options(c10d.BarrierOptions)
    return call.run(lambda: [call.backend_call("barrier", options)], lambda: None).boxed()


# -- from rank to rank ----------------------------------------------------------------------------


def _transfer(call: Call, works: Sequence[Any], back: Callable[[], None]) -> Any:
    made = Transfers(call, works, back)
    if call.is_nccl and call.backend.coalesced is not None:
        call.backend.coalesced.append(made)
    return made.boxed()


def send(tensors: Tensors, group: Any, destination: int, tag: int) -> Any:
    call = _begin("SEND", group, tensors, [], peer=destination)
    hosts = [_bytes(each) for each in tensors]
    try:
        works = [call.backend_call("send", [h], destination, _tag(call, tag)) for h in hosts]
    except RuntimeError as error:
        raise call.failure(error) from error
    return _transfer(call, works, hosts.clear)


def recv_(tensors: Tensors, group: Any, source: int, tag: int) -> Any:
    call = _begin("RECV", group, tensors, [], peer=source)
    rooms = [_room(each) for each in tensors]
    try:
        works = [call.backend_call("recv", [r], source, _tag(call, tag)) for r in rooms]
    except RuntimeError as error:
        raise call.failure(error) from error

    def back() -> None:
        for tensor, room in zip(tensors, rooms, strict=True):
            _fill(tensor, room)

    return _transfer(call, works, back)


def _tag(call: Call, tag: int) -> int:
    return 0 if call.is_nccl else tag  # NCCL has none: messages arrive in the order of sending


def recv_any_source_(tensors: Tensors, group: Any, tag: int) -> Any:
    call = _begin("RECVANYSOURCE", group, tensors, [], peer=c10d.ProcessGroup.unbox(group).rank())
    if call.is_nccl:
        raise RuntimeError("Backend nccl does not support recvAnysource")
    raise NotImplementedError(
        "gloo on GPUs simulated by unidev has no recv from any rank: the work does not keep which "
        f"rank sent (tag {tag}); name the source"
    )


KERNELS: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        _allgather_base_, _reduce_scatter_base_, allgather_, allgather_coalesced_,
        allgather_into_tensor_coalesced_, allreduce_, allreduce_coalesced_, alltoall_,
        alltoall_base_, barrier, broadcast_, gather_, recv_, recv_any_source_, reduce_,
        reduce_scatter_, reduce_scatter_tensor_coalesced_, scatter_, send,
    )
}  # fmt: skip
