"""The operators of ``c10d`` from one rank to another, under their own names."""
# ruff: noqa: D103  torch's documentation describes them

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from torch._C import _distributed_c10d

from unidev_torch_simulator.distributed import checks
from unidev_torch_simulator.distributed.calling import begin, bytes_of, fill, room_for  # fmt: skip
from unidev_torch_simulator.distributed.works import Transfers, without_grad

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch

    from unidev_torch_simulator.distributed.works import Call

    Tensors = Sequence[torch.Tensor]

c10d: Any = _distributed_c10d


def _begin(name: str, tensors: Tensors, group: Any, peer: int) -> Call:
    call = begin(name, group, tensors, [], peer=peer)
    if _is_own(call, peer) and call.backend.batch is None:
        raise checks.unmatched(is_sent=name == "SEND")
    return call


def _is_own(call: Call, peer: int) -> bool:
    return call.is_nccl and peer == call.backend.rank()


def _transfer(call: Call, works: Sequence[Any], back: Callable[[], None]) -> Any:
    made = Transfers(call, works, back)
    if call.is_nccl and call.backend.batch is not None:
        call.backend.batch.works.append(made)
    return made.boxed()


def send(tensors: Tensors, group: Any, destination: int, tag: int) -> Any:
    call = _begin("SEND", tensors, group, destination)
    hosts = [bytes_of(each) for each in tensors]
    if _is_own(call, destination):
        call.backend.batch.sent += hosts
        return _transfer(call, [], lambda: None)
    try:
        works = [
            call.backend_call("send", [h], call.rank_of(destination), _tag(call, tag))
            for h in hosts
        ]
    except RuntimeError as error:
        raise call.failure(error) from error
    return _transfer(call, works, hosts.clear)


def recv_(tensors: Tensors, group: Any, source: int, tag: int) -> Any:
    call = _begin("RECV", tensors, group, source)
    if _is_own(call, source):
        call.backend.batch.received += [partial(_take, each) for each in tensors]
        return _transfer(call, [], lambda: None)
    rooms = [room_for(each) for each in tensors]
    try:
        works = [
            call.backend_call("recv", [r], call.rank_of(source), _tag(call, tag)) for r in rooms
        ]
    except RuntimeError as error:
        raise call.failure(error) from error

    def back() -> None:
        for tensor, room in zip(tensors, rooms, strict=True):
            fill(tensor, room)

    return _transfer(call, works, back)


def _take(tensor: torch.Tensor, host: torch.Tensor) -> None:
    """Copy what this rank sent to itself."""
    text = "a rank's transfer to itself must receive as many bytes as it sends"
    checks.check_numel(host.numel(), tensor.numel() * tensor.element_size(), text)
    with without_grad([tensor]):
        fill(tensor, host)


def _tag(call: Call, tag: int) -> int:
    return 0 if call.is_nccl else tag  # NCCL has none: messages arrive in the order of sending


def recv_any_source_(tensors: Tensors, group: Any, tag: int) -> Any:
    call = begin("RECVANYSOURCE", group, tensors, [], peer=c10d.ProcessGroup.unbox(group).rank())
    if call.is_nccl:
        raise RuntimeError("Backend nccl does not support recvAnysource")
    raise NotImplementedError(
        "gloo on GPUs simulated by unidev has no recv from any rank: the work does not keep which "
        f"rank sent (tag {tag}); name the source"
    )
