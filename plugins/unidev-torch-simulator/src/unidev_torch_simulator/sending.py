"""Tensors that a worker of a ``DataLoader`` sends to the process that has started it."""

from __future__ import annotations

import sys
from multiprocessing.reduction import ForkingPickler
from typing import Any


def let_workers_send(torch: Any, device_type: str) -> None:
    """Let workers of a ``DataLoader`` send copies of tensors on devices of this type.

    For a batch, which its worker forgets, a copy is as good as shared memory, which ``cuda`` has
    (``cuda/ipc.py``). Elsewhere a copy is not what a program means that shares memory: it stays
    refused. Without this, the worker's queue loses the batch in a thread of its own, and the loader
    waits for ever.
    """
    own = torch.multiprocessing.reductions.reduce_tensor

    def reduce_tensor(tensor: Any) -> Any:
        is_refused = tensor.requires_grad and not tensor.is_leaf  # by torch itself
        if tensor.device.type != device_type or is_refused or not _is_in_a_worker():
            return own(tensor)
        sent = own(tensor.detach().cpu())
        return _received, (sent, type(tensor), tensor.device, tensor.requires_grad)

    for cls in (torch.Tensor, torch.nn.Parameter):
        ForkingPickler.register(cls, reduce_tensor)


def _is_in_a_worker() -> bool:
    data = sys.modules.get("torch.utils.data")
    return data is not None and data.get_worker_info() is not None


def _received(sent: Any, cls: Any, device: Any, requires_grad: bool) -> Any:
    rebuild, arguments = sent
    tensor = rebuild(*arguments).to(device)
    tensor.requires_grad_(requires_grad)
    return tensor if cls is type(tensor) else cls(tensor, requires_grad)  # else a Parameter
