"""``init_process_group("nccl")`` on simulated GPUs: NCCL's checks, gloo's exchange in host memory.

torch's own ``ProcessGroup`` remains. Each collective of it is an operator of the namespace
``c10d``, called for the type of device of its tensors: those for ``cuda`` are ours (``kernels``).
They copy the tensors to host memory and let gloo exchange them there. So a group of gloo, too,
takes tensors of ``cuda``, as in a build for CUDA.
"""

from __future__ import annotations

import hashlib
from typing import Any


def before_distributed() -> None:
    """Give torch's bindings ``ProcessGroupNCCL``, for which ``torch.distributed`` looks once."""
    import torch._C

    from unidev_torch.simulator.cuda.nccl.backend import TIMEOUT, ProcessGroupNCCL

    bindings: Any = torch._C._distributed_c10d
    bindings.ProcessGroupNCCL = ProcessGroupNCCL
    bindings._DEFAULT_PG_NCCL_TIMEOUT = TIMEOUT
    bindings._hash_tensors = _hash_tensors


def _hash_tensors(tensors: list[Any]) -> int:
    """A number for the log that TORCH_DISTRIBUTED_DEBUG=DETAIL has of exchanged objects."""
    import torch

    together = hashlib.blake2b(digest_size=8)
    for tensor in tensors:
        together.update(bytes(tensor.detach().cpu().reshape(-1).view(torch.uint8).tolist()))
    return int.from_bytes(together.digest(), "little")


def finish() -> None:
    """Register the operators, and what ``ProcessGroup`` does without one; torch is complete."""
    import torch.distributed

    if not torch.distributed.is_available():
        return
    from unidev_torch.simulator.cuda.nccl import groups, kernels

    kernels.register()
    groups.patch()
