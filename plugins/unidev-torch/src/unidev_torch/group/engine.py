"""torch.distributed: NCCL or the like for tensors on GPUs, gloo for those on the CPU."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from datetime import timedelta
from functools import cache
from itertools import count
from types import MappingProxyType
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

from unidev.contract import GroupEngine
from unidev.errors import UnsupportedOperation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from unidev.contract import Device, Rendezvous

_REASON = "unidev/aborted"
"""The key in the group's store."""
_SUMMED = frozenset(
    {"int8", "uint8", "int32", "int64", "uint64", "float32", "float64", "complex64", "complex128"}
)
_ORDERED = frozenset(
    {"int8", "uint8", "int32", "int64", "float16", "bfloat16", "float32", "float64"}
)
_MOVED = _SUMMED | _ORDERED | {"bool", "int16", "uint16", "uint32"}


def _listen_on(interface: str | None) -> None:
    """Gloo and NCCL, unless the user has said where: also for groups that the program makes."""
    if interface is not None:
        for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
            os.environ.setdefault(name, interface)


class TorchEngine(GroupEngine):
    """The default process group, which a program may use beside unidev."""

    carries = MappingProxyType(
        {"sum": _SUMMED, "min": _ORDERED, "max": _ORDERED, "broadcast": _MOVED, "gather": _MOVED}
    )
    wider = MappingProxyType(
        {**GroupEngine.wider, "int16": "int32", "uint16": "int32", "uint32": "int64"}
    )

    narrow = frozenset({"float16", "bfloat16"})
    joins_by_environment = True

    def join(self, rank: int, rendezvous: Rendezvous, device: Device) -> None:
        """``init_process_group``, unless the program has called it, as under torchrun.

        Raises:
            UnsupportedOperation: torch was built without ``torch.distributed``, or the program's
                own group is of another size or rank.
        """
        if not dist.is_available():
            raise UnsupportedOperation("joining a group", "torch was built without distributed")
        names = _engines_for(device)
        self.on_host = device.kind == "gpu" and len(names) == 1
        self._here = self.backend.cpu.native if self.on_host else device.native
        self._size = rendezvous.size
        self._is_ours = not dist.is_initialized()
        self._closing = threading.Lock()
        self._numbers = count()
        self._under_way: dict[int, dist.Work] = {}
        """What holds gloo's connections open, by the number of the call."""
        if self._is_ours:
            _listen_on(rendezvous.own_interface(rank))
            dist.init_process_group(
                ",".join(f"{kind}:{name}" for kind, name in names.items()),
                init_method=(
                    "env://"
                    if rendezvous.folder is None
                    else (rendezvous.folder / "torch").as_uri()
                ),
                rank=rank,
                world_size=rendezvous.size,
                timeout=timedelta(seconds=rendezvous.timeout_s),
            )
        elif (dist.get_rank(), dist.get_world_size()) != (rank, rendezvous.size):
            raise UnsupportedOperation(
                "joining a group",
                f"torch.distributed is rank {dist.get_rank()} of {dist.get_world_size()} in this "
                f"process already, not rank {rank} of {rendezvous.size}",
            )
        group = dist.group.WORLD
        assert group is not None
        self._group = group
        if self._is_ours and group.name() == "undefined":
            # Torch leaves it out where another engine was registered, as torch._dynamo does, which
            # every optimizer imports; then its end warns of hooks (2.13).
            group._set_default_backend(dist.ProcessGroup.BackendType.GLOO)
        # A group of the program's own may have no engine for the CPU.
        has_cpu = "cpu:" in dist.get_backend_config()
        self._numbers_at = torch.device("cpu") if has_cpu else device.native

    def gather_numbers(self, numbers: Sequence[int], device: Device) -> Sequence[Sequence[int]]:  # noqa: ARG002
        """By gloo, if it is there."""
        own = torch.tensor(numbers, device=self._numbers_at)
        found = [torch.empty_like(own) for _ in range(self._size)]
        self._group.allgather([found], [own]).wait()
        return [each.tolist() for each in found]

    def all_reduce(self, flat: torch.Tensor, op: str) -> torch.Tensor:
        """In place, if ``flat`` is contiguous."""
        return self.start_all_reduce(flat, op)()

    def start_all_reduce(self, flat: torch.Tensor, op: str) -> Callable[[], torch.Tensor]:
        """In place, if ``flat`` is contiguous, by a thread of gloo's, or a stream of NCCL's."""
        flat = _plain(flat)
        whole = flat
        if flat.is_complex():  # sums of these are sums of their parts
            whole = torch.view_as_real(flat)
        elif flat.dtype is torch.uint64:
            whole = flat.view(torch.int64)  # the same bits
        # Not `dist.all_reduce`, whose checks take as long as a small exchange.
        number = next(self._numbers)
        self._under_way[number] = self._group.allreduce([whole], _options(op))

        def finish() -> torch.Tensor:
            self._under_way.pop(number).wait()
            return flat

        return finish

    def broadcast(self, flat: torch.Tensor, root: int) -> torch.Tensor:
        """In place, if ``flat`` is contiguous; as bytes, since not all dtypes are known there."""
        flat = _plain(flat)
        dist.broadcast(_bytes_of(flat), root)
        return flat

    def all_gather(self, flat: torch.Tensor) -> Sequence[torch.Tensor]:
        """As bytes, into one tensor for each worker."""
        flat = _plain(flat)
        found = [torch.empty_like(flat) for _ in range(self._size)]
        dist.all_gather([_bytes_of(x) for x in found], _bytes_of(flat))
        return found

    def abort(self, reason: str) -> None:
        """Close the group, also the program's own: its next call would be taken for one of ours."""
        dist.distributed_c10d._get_default_store().set(_REASON, reason)
        self._under_way.clear()  # the traceback that has left it may live on, and they are open
        self._close()

    def aborted(self) -> str:
        """From the store, unless it has gone with rank 0."""
        with suppress(dist.DistError, ValueError):
            store = dist.distributed_c10d._get_default_store()
            if store.check([_REASON]):
                return store.get(_REASON).decode()
        return ""

    def leave(self) -> None:
        """``destroy_process_group``, if ``join`` made it.

        Its threads end with the last reference to it; a process that ends before may abort.
        """
        if self._is_ours:
            self._close()

    def _close(self) -> None:
        vars(self).pop("_group", None)  # which abort may have left already
        with self._closing:
            if dist.is_initialized():
                dist.destroy_process_group()


@cache
def _options(op: str) -> dist.AllreduceOptions:
    options = dist.AllreduceOptions()
    options.reduceOp = getattr(dist.ReduceOp, op.upper())
    return options


def _plain(x: torch.Tensor) -> torch.Tensor:
    """``x`` itself where its elements lie in order and mean what they say."""
    if x.is_contiguous() and not (x.requires_grad or x.is_conj() or x.is_neg()):
        return x
    return x.detach().resolve_conj().resolve_neg().contiguous()


def _bytes_of(x: torch.Tensor) -> torch.Tensor:
    return x.reshape(-1).view(torch.uint8)


def _engines_for(device: Device) -> dict[str, str]:
    """Torch's engine for each type of device: for the CPU, and for GPUs if there is one."""
    names = {"cpu": "gloo"}
    if device.kind == "gpu":
        kind = device.native.type
        name = dist.Backend.default_device_backend_map.get(kind)
        if name is not None and dist.is_backend_available(name):
            names[kind] = name
    return names
