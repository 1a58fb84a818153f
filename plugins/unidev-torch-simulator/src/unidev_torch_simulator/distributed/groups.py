"""What torch's ``ProcessGroup`` asks of its backend without an operator: batches, ends, splits."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

import torch
from torch._C import _distributed_c10d

from unidev_torch_simulator.cuda.refused import refusing
from unidev_torch_simulator.distributed import names
from unidev_torch_simulator.distributed.backend import Options, ProcessGroupNCCL
from unidev_torch_simulator.distributed.works import Batch, Call, Transfers, done

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import timedelta

c10d: Any = _distributed_c10d


def _gpu() -> torch.device:
    return torch.device(names.current().device)


def patch() -> None:
    """Patch torch's class, for groups whose backend for GPUs is ours; others keep theirs."""
    for method in (
        _start_coalescing, _end_coalescing, shutdown, abort, split_group, merge_remote_group,
        _enable_collectives_timing, _get_sequence_number_for_group, _register_on_completion_hook,
    ):  # fmt: skip
        _replace(method)
    _wrap_only_others()


def _replace(method: Callable[..., Any]) -> None:
    original = getattr(c10d.ProcessGroup, method.__name__)

    @wraps(original)
    def chosen(self: Any, *given: Any, **named: Any) -> Any:
        backend = nccl_of(self)
        if backend is None:
            return original(self, *given, **named)
        return method(self, backend, *given, **named)

    setattr(c10d.ProcessGroup, method.__name__, chosen)


def _wrap_only_others() -> None:
    """With TORCH_DISTRIBUTED_DEBUG=DETAIL torch wraps each backend: let ours do it itself."""
    from torch.distributed import distributed_c10d

    original = distributed_c10d._create_process_group_wrapper

    @wraps(original)
    def chosen(wrapped_pg: Any, *given: Any, **named: Any) -> Any:
        if not isinstance(wrapped_pg, ProcessGroupNCCL):
            return original(wrapped_pg, *given, **named)
        wrapped_pg.compare_calls()
        return wrapped_pg

    distributed_c10d._create_process_group_wrapper = chosen


def nccl_of(group: Any) -> ProcessGroupNCCL | None:
    """The backend of ``group`` for GPUs, if it is ours."""
    if _gpu() not in group._device_types:
        return None
    backend = group._get_backend(_gpu())
    return backend if isinstance(backend, ProcessGroupNCCL) else None


def _start_coalescing(group: Any, backend: ProcessGroupNCCL, device: Any) -> None:  # noqa: ARG001
    backend.batch = Batch()


def _end_coalescing(group: Any, backend: ProcessGroupNCCL, device: Any) -> Any:  # noqa: ARG001
    """One work for all sends and receives since the start; collectives have run."""
    batch, backend.batch = backend.batch or Batch(), None
    transfers = batch.end()
    if not transfers:
        return done([])
    tensors = [tensor for each in transfers for tensor in each.result()]
    call = Call("COALESCED", backend, is_nccl=True, tensors=tensors)
    return Transfers(call, transfers, lambda: None)


def _others(group: Any, backend: ProcessGroupNCCL) -> list[Any]:
    found = [group._get_backend(device) for device in group._device_types if device != _gpu()]
    return [each for each in found if each is not backend]


def shutdown(group: Any, backend: ProcessGroupNCCL) -> None:
    """End all backends of the group."""
    backend.shutdown()
    for each in _others(group, backend):
        each.shutdown()


def abort(group: Any, backend: ProcessGroupNCCL) -> None:
    """End what is under way in all backends of the group."""
    backend.abort()
    for each in _others(group, backend):
        each.abort()


def split_group(  # noqa: PLR0913, PLR0917  torch's arguments
    group: Any, backend: ProcessGroupNCCL, ranks: Sequence[int], timeout: timedelta | None = None,
    opts: Options | None = None, group_name: str | None = None, group_desc: str | None = None,
    device_types: Sequence[torch.device] | None = None,
) -> Any:  # fmt: skip
    """A group of ``ranks`` of this one, with the same kinds of backends; None for other ranks."""
    number = backend.count_split()
    ranks = sorted(ranks)
    if backend.rank() not in ranks:
        return None
    options = opts if isinstance(opts, Options) else Options()
    if timeout is not None:
        options._timeout = timeout
    name = group_name or f"{group.group_name}:split:{number}"
    store = c10d.PrefixStore(f"{name}/", backend.store)
    rank, size = ranks.index(backend.rank()), len(ranks)
    made = c10d.ProcessGroup(store, rank, size)
    kinds = c10d.ProcessGroup.BackendType
    kind = getattr(kinds, names.current().kind)
    made._set_default_backend(kind)
    for device in device_types or group._device_types:
        own = c10d.PrefixStore(f"{device.type}/", store)
        if device.type == names.current().device:
            part = ProcessGroupNCCL(own, rank, size, options)
            if backend.comparison is not None:
                part.compare_calls()
            made._register_backend(device, kind, part)
        else:
            other = c10d.ProcessGroupGloo(own, rank, size, timeout=options._timeout)
            made._register_backend(device, kinds.GLOO, other)
    made._set_group_name(name)
    made._set_group_desc(group_desc or f"{group.group_desc}:split:{number}")
    return made


def merge_remote_group(group: Any, backend: ProcessGroupNCCL, *_: Any, **__: Any) -> Any:  # noqa: ARG001
    """Refuses: torch's C++ would merge the part of the backend that is gloo's."""
    refusing(
        "merge_remote_group", "gloo, which exchanges their tensors, merges no groups of GPUs"
    )()


def _enable_collectives_timing(group: Any, backend: ProcessGroupNCCL) -> None:
    """Does nothing: no collective has a duration on a GPU."""


def _get_sequence_number_for_group(group: Any, backend: ProcessGroupNCCL) -> int:  # noqa: ARG001
    """How many calls this rank has made."""
    return backend.calls


def _register_on_completion_hook(group: Any, backend: ProcessGroupNCCL, hook: Any) -> None:  # noqa: ARG001
    """Refuses: such a hook is called by NCCL's watchdog."""
    refusing("_register_on_completion_hook", "there is no watchdog that would call it")()
