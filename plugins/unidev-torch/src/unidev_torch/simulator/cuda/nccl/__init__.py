"""``init_process_group("nccl")`` on simulated GPUs: NCCL's checks, gloo's exchange in host memory.

torch's own ``ProcessGroup`` remains. Each collective of it is an operator of the namespace
``c10d``, called for the type of device of its tensors: those for ``cuda`` are ours (``kernels``).
They copy the tensors to host memory and let gloo exchange them there. So a group of gloo, too,
takes tensors of ``cuda``, as in a build for CUDA.
"""

from __future__ import annotations

from typing import Any


def before_distributed() -> None:
    """Give torch's bindings ``ProcessGroupNCCL``, for which ``torch.distributed`` looks once."""
    import torch._C

    from unidev_torch.simulator.cuda.nccl.backend import TIMEOUT, ProcessGroupNCCL

    bindings: Any = torch._C._distributed_c10d
    bindings.ProcessGroupNCCL = ProcessGroupNCCL
    bindings._DEFAULT_PG_NCCL_TIMEOUT = TIMEOUT


def finish() -> None:
    """Register the operators, and what ``ProcessGroup`` does without one; torch is complete."""
    import torch.distributed

    if not torch.distributed.is_available():
        return
    from unidev_torch.simulator.cuda.nccl import groups, kernels

    kernels.register()
    groups.patch()
