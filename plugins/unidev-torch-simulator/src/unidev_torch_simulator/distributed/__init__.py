"""``torch.distributed`` on simulated GPUs: NCCL's checks, gloo's exchange in host memory.

Devices named ``cuda`` have the backend ``nccl``, those named ``sim`` the same one as ``simccl``.
torch's own ``ProcessGroup`` remains. Each collective of it is an operator of the namespace
``c10d``, called for the type of device of its tensors: those for GPUs are ours (``kernels``).
They copy the tensors to host memory and let gloo exchange them there. So a group of gloo, too,
takes tensors of simulated GPUs, as it does those of real ones.
"""

from __future__ import annotations

import hashlib
from typing import Any


def before_distributed() -> None:
    """Give torch's bindings ``ProcessGroupNCCL``, for which ``torch.distributed`` looks once."""
    import torch._C

    from unidev_torch_simulator.distributed.backend import TIMEOUT, ProcessGroupNCCL

    bindings: Any = torch._C._distributed_c10d
    bindings.ProcessGroupNCCL = ProcessGroupNCCL
    bindings._DEFAULT_PG_NCCL_TIMEOUT = TIMEOUT
    bindings._hash_tensors = _hash_tensors


def _hash_tensors(tensors: list[Any]) -> int:
    """A number for the log that TORCH_DISTRIBUTED_DEBUG=DETAIL has of exchanged objects."""
    together = hashlib.blake2b(digest_size=8)
    for tensor in tensors:
        together.update(tensor.detach().cpu().contiguous().view(-1).numpy(force=True).tobytes())
    return int.from_bytes(together.digest(), "little")


def finish() -> None:
    """Register the operators, and what ``ProcessGroup`` does without one; torch is complete."""
    import torch.distributed

    if not torch.distributed.is_available():
        return
    from unidev_torch_simulator.distributed import groups
    from unidev_torch_simulator.distributed.operators import kernels

    kernels.register()
    groups.patch()


def add_simccl(first: int) -> None:
    """Give ``torch.distributed`` the backend ``simccl``, the default one of ``sim``.

    ``first`` is the number of ``sim:0`` among the simulated GPUs of all workers.
    """
    import torch.distributed

    if not torch.distributed.is_available():
        return
    from unidev_torch_simulator.distributed import names
    from unidev_torch_simulator.distributed.backend import made_for

    names.choose(names.SIM)
    names.first = first
    finish()
    torch.distributed.Backend.register_backend(
        names.SIM.backend, made_for, extended_api=True, devices=[names.SIM.device]
    )
