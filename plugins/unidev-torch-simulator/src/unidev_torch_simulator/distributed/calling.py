"""From an operator's arguments to a call, and from tensors to host memory and back.

Tensors cross as one row of elements, or of bytes where nothing is reduced: NCCL compares numbers of
elements, gloo shapes and dtypes.
"""
# ruff: noqa: PLR0913  as many arguments as torch's operators have

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch._C import _distributed_c10d

from unidev_torch_simulator import late
from unidev_torch_simulator.distributed import checks, fingerprints, names
from unidev_torch_simulator.distributed.backend import ProcessGroupNCCL
from unidev_torch_simulator.distributed.works import Call

if TYPE_CHECKING:
    from collections.abc import Sequence

    Tensors = Sequence[torch.Tensor]

c10d: Any = _distributed_c10d


def begin(
    name: str, group: Any, outputs: Tensors, inputs: Tensors, *, is_async: bool = True,
    timeout: int = -1, peer: int | None = None,
) -> Call:  # fmt: skip
    """Check what NCCL checks before a collective begins, and number the call.

    Raises:
        DistBackendError: the group is gone, two ranks use one GPU, or one has not come.
        RuntimeError: the ranks' calls differ, and TORCH_DISTRIBUTED_DEBUG is DETAIL.
    """
    tensors = [*outputs, *inputs]
    group = c10d.ProcessGroup.unbox(group)
    backend = group._get_backend(torch.device(names.current().device))
    is_wrapped = isinstance(backend, c10d._ProcessGroupWrapper)
    if is_wrapped:
        backend = backend.wrapped_pg
    is_nccl = isinstance(backend, ProcessGroupNCCL)
    call = Call(
        name, backend, is_nccl, is_async, timeout, list(outputs), sum(t.numel() for t in inputs)
    )
    _check_usable(group, backend, is_nccl=is_nccl)
    comparison = fingerprints.of_gloo(group) if is_wrapped else None
    if is_nccl:
        comparison = backend.comparison
    if comparison is not None and peer is None:  # other ranks know nothing of a transfer
        comparison.check(name, outputs, inputs, backend.options._timeout)
    if is_nccl:
        backend.calls += 1
        call.number = backend.calls
    checks.check_tensors(tensors, is_nccl=is_nccl)
    if is_nccl:
        ranks = range(group.size()) if peer is None else (peer,)
        if peer is not None and backend.batch is None and not backend.exchanges.is_eager:
            call.peer = peer
        try:
            backend.meet(tensors[0].device if tensors else backend.own_device(), ranks)
            if peer != backend.rank() or backend.batch is not None:
                backend.exchanges.with_rank(call.peer)
        except RuntimeError as error:
            raise call.failure(error) from error
    if late.is_on() and peer is None and tensors:
        call.order = late.Collective(name, inputs, outputs, is_async=is_async)
    return call


def _check_usable(group: Any, backend: Any, *, is_nccl: bool) -> None:
    """Raise as a communicator that is gone."""
    if is_nccl:
        backend.check_usable()
    elif group.name() == names.current().kind.lower():  # shut down: gloo's part is left of it
        raise checks.aborted(group.rank())


def row_of(tensor: torch.Tensor) -> torch.Tensor:
    """The elements in the order in which they lie in memory."""
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.detach())
    return tensor.detach().as_strided((tensor.numel(),), (1,))


def on_host(tensor: torch.Tensor) -> torch.Tensor:
    """The elements of ``tensor``, copied to host memory, where NCCL's host waits for nothing."""
    row = row_of(tensor)
    return torch.empty_like(row, device="cpu").copy_(row, non_blocking=True)


def bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    """The bytes of ``tensor``, copied to host memory."""
    return on_host(tensor).view(torch.uint8)


def room_for(tensor: torch.Tensor) -> torch.Tensor:
    """Host memory for the bytes of a tensor like this one."""
    return torch.empty(tensor.numel() * tensor.element_size(), dtype=torch.uint8)


def fill(tensor: torch.Tensor, host: torch.Tensor) -> None:
    """Copy bytes, or elements, to the GPU."""
    flat = row_of(tensor)
    flat.copy_(host if host.dtype is flat.dtype else host.view(flat.dtype), non_blocking=True)


def parts_of(host: torch.Tensor, sizes: list[int]) -> Tensors:
    """Views of ``host``, of these numbers of elements."""
    parts: Tensors = host.split(sizes)  # type: ignore[no-untyped-call]
    return parts


def numels(tensors: Tensors) -> list[int]:
    """The number of elements of each."""
    return [tensor.numel() for tensor in tensors]


def flattened(lists: Sequence[Tensors]) -> list[torch.Tensor]:
    """All tensors of all lists, in their order."""
    return [tensor for each in lists for tensor in each]
