"""Copies between several GPUs in one process, on which ``torch.nn.DataParallel`` rests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unidev_torch_simulator.cuda.devices import ops

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch


def add_to(bindings: Any) -> None:
    """Give ``torch._C`` the functions of ``torch.nn.parallel.comm``."""
    for function in (
        _broadcast, _broadcast_out, _broadcast_coalesced, _scatter, _scatter_out, _gather,
        _gather_out,
    ):  # fmt: skip
        setattr(bindings, function.__name__, function)


def _device(index: int | None) -> torch.device:
    import torch

    if index is None:
        index = ops().current_device()
    return torch.device("cpu") if index < 0 else torch.device("cuda", index)


def _to(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    return tensor if tensor.device == device else tensor.to(device)


def _broadcast(tensor: torch.Tensor, devices: Sequence[int]) -> list[torch.Tensor]:
    return [_to(tensor, _device(index)) for index in devices]


def _broadcast_out(tensor: torch.Tensor, out: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
    for each in out:
        if each.shape != tensor.shape:
            raise RuntimeError(
                "Expected all output tensors to have same shape as the source tensor "
                f"{list(tensor.shape)}, but output tensor has shape {list(each.shape)}"
            )
        each.copy_(tensor)
    return out


def _broadcast_coalesced(
    tensors: Sequence[torch.Tensor],
    devices: Sequence[int],
    buffer_size: int,  # noqa: ARG001
) -> list[list[torch.Tensor]]:
    import torch

    if any(tensor.device != _device(devices[0]) for tensor in tensors):
        raise RuntimeError(f"all tensors must be on devices[0]: {devices[0]}")
    with torch.no_grad():
        others = [[each.detach().to(_device(i)) for each in tensors] for i in devices[1:]]
    return [list(tensors), *others]


def _split(tensor: torch.Tensor, sizes: list[int], dim: int) -> Sequence[torch.Tensor]:
    parts: Sequence[torch.Tensor] = tensor.split(sizes, dim)  # type: ignore[no-untyped-call]
    return parts


def _scatter(
    tensor: torch.Tensor, devices: Sequence[int], sizes: Sequence[int] | None, dim: int,
    streams: Sequence[Any] | None,  # noqa: ARG001  all work is done when a call returns
) -> list[torch.Tensor]:  # fmt: skip
    chunks = _split(tensor, list(sizes), dim) if sizes else tensor.chunk(len(devices), dim)
    devices = devices[: len(chunks)]  # a small batch has fewer chunks than there are GPUs
    return [
        _to(chunk, _device(index)).contiguous()
        for chunk, index in zip(chunks, devices, strict=True)
    ]


def _scatter_out(
    tensor: torch.Tensor, out: Sequence[torch.Tensor], dim: int,
    streams: Sequence[Any] | None,  # noqa: ARG001
) -> Sequence[torch.Tensor]:  # fmt: skip
    for each, chunk in zip(out, _split(tensor, [each.size(dim) for each in out], dim), strict=True):
        each.copy_(chunk)
    return out


def _gather(tensors: Sequence[torch.Tensor], dim: int, destination: int | None) -> torch.Tensor:
    import torch

    tensors = list(tensors)
    if not all(tensor.is_cuda for tensor in tensors):
        raise RuntimeError("Gather expects all inputs to have CUDA type")
    return torch.cat([_to(tensor, _device(destination)) for tensor in tensors], dim)


def _gather_out(tensors: Sequence[torch.Tensor], out: torch.Tensor, dim: int) -> torch.Tensor:
    for piece, each in zip(_split(out, [t.size(dim) for t in tensors], dim), tensors, strict=True):
        piece.copy_(each)
    return out
