"""CUDA's IPC, memory that one process exports and another opens, by torch's shared CPU memory."""

from __future__ import annotations

import os
import threading
from typing import Any

from unidev_torch_simulator.cuda.devices import ops

_lock = threading.Lock()  # while memory moves to where other processes can open it


def apply(torch: Any) -> None:
    """Let storages on simulated GPUs be exported and opened.

    Tensors are then sent as on CUDA: by queues and pipes, to spawned processes, by
    ``torch.multiprocessing.reductions.reduce_tensor``. Both processes have the same memory, whose
    bytes the exporting one counts. It moves when it is first exported, so ``data_ptr()`` changes,
    as it does when a CPU's storage is first shared.
    """
    base = torch.UntypedStorage
    base._share_cuda_ = _exported
    base._new_shared_cuda = staticmethod(_opened)
    base._release_ipc_counter_cuda = staticmethod(_host_of)  # opened before: one is in flight less


def _exported(storage: Any) -> tuple[Any, ...]:
    """What ``_share_cuda_`` returns: device, handle, size, offset; counter, event (none)."""
    import torch

    if storage.device.type != "cuda":
        raise RuntimeError("_share_cuda_: only available on CUDA")
    holder = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
    if ops().is_received(holder):
        raise RuntimeError(
            "Attempted to send CUDA tensor received from another process; this is not currently "
            "supported. Consider cloning before sending."
        )
    if storage.nbytes() == 0:
        return storage.device.index, None, 0, 0, None, 0, None, False
    with _lock:
        host = ops().shared_host(holder).untyped_storage()
        if host.nbytes() == 0:
            host = torch.UntypedStorage._new_using_filename_cpu(storage.nbytes())
            ops().share(holder, torch.empty(0, dtype=torch.uint8).set_(host))
    manager, name, size = host._share_filename_cpu_()
    host._shared_incref()  # for the process that will open it, should this one drop it before
    handle = b"\0".join((b"%d" % os.getpid(), manager, name))
    return storage.device.index, handle, size, 0, handle, size, None, False


def _opened(device: int, handle: bytes, size: int, *_: Any) -> Any:
    import torch

    host = torch.empty(0, dtype=torch.uint8).set_(_host_of(handle, size))
    return ops().received(host, device).untyped_storage()


def _host_of(handle: bytes, size: int) -> Any:
    """The CPU's storage behind a handle, which was counted as in flight until now."""
    import torch

    try:
        process, manager, name = handle.split(b"\0")
    except ValueError:
        raise _error(1, "invalid argument", "This is no handle of _share_cuda_.") from None
    if int(process) == os.getpid():
        raise _error(201, "invalid device context", "A process cannot open its own memory.")
    try:
        host = torch.UntypedStorage._new_shared_filename_cpu(manager, name, size)
    except RuntimeError as error:
        why = "The process that shared this memory has ended, or has released it."
        raise _error(400, "invalid resource handle", why) from error
    return host._shared_decref()


def _error(code: int, words: str, why: str) -> Exception:
    import torch

    error: Any = torch.AcceleratorError(f"CUDA error: {words}\n{why} (simulated by unidev)\n")
    error.error_code = code
    return error  # type: ignore[no-any-return]
