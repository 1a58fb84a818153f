"""The operators ``c10d::…`` for tensors on simulated GPUs: ours, and refusals of the rest."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import torch
from torch._C._dynamo import eval_frame

from unidev_torch_simulator import late
from unidev_torch_simulator.distributed import names
from unidev_torch_simulator.distributed.operators import movements, reductions, transfers

if TYPE_CHECKING:
    from collections.abc import Callable

_kept: list[Any] = []
"""The registrations, which end with their objects."""


def register() -> None:
    """Register the kernels, and for other operators of ``c10d`` one that refuses by name."""
    key = names.current().key
    library = torch._C._dispatch_library("IMPL", "c10d", "", __file__, 1)
    _kept.append(library)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in operators():
            kernel = KERNELS.get(name) or _refusing(name)
            library.impl(name, key, _untraced(late.untracking(kernel)))
        library.impl("allreduce_", f"Sparse{key}", _refusing("allreduce_ of sparse tensors"))


def operators() -> list[str]:
    """The operators of ``c10d`` that torch's own library calls with tensors of GPUs."""
    key = names.current().key
    return [
        name.removeprefix("c10d::")
        for name in torch._C._dispatch_get_all_op_names()
        if name.startswith("c10d::") and torch._C._dispatch_has_kernel_for_dispatch_key(name, key)
    ]


def _untraced(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Let Dynamo run ``kernel``, and all that it calls, as it is.

    DDP in a compiled program calls collectives from C++ between two graphs, where Dynamo looks at
    each Python frame. ``torch.compiler.disable`` would import the compiler into every program.
    """
    as_it_is = eval_frame._FrameExecStrategy(
        eval_frame._FrameAction.SKIP, eval_frame._FrameAction.SKIP
    )
    eval_frame.set_code_exec_strategy(kernel.__code__, as_it_is)
    return kernel


def _refusing(name: str) -> Callable[..., Any]:
    def refuse(*_: Any) -> Any:
        raise NotImplementedError(
            f"GPUs simulated by unidev have no c10d::{name}: gloo, which would do its work, reads "
            "host memory only"
        )

    return refuse


KERNELS: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        movements._allgather_base_,
        reductions._reduce_scatter_base_,
        movements.allgather_,
        movements.allgather_coalesced_,
        movements.allgather_into_tensor_coalesced_,
        reductions.allreduce_,
        reductions.allreduce_coalesced_,
        movements.alltoall_,
        movements.alltoall_base_,
        movements.barrier,
        movements.broadcast_,
        movements.gather_,
        transfers.recv_,
        transfers.recv_any_source_,
        reductions.reduce_,
        reductions.reduce_scatter_,
        reductions.reduce_scatter_tensor_coalesced_,
        movements.scatter_,
        transfers.send,
    )
}
