"""Faults in the collectives of simulated GPUs, and whether a question catches each.

Every rank has the same fault. They agree in the end, since one fault may show on one rank only.
"""

# ruff: noqa: I001  torch after the simulator
from __future__ import annotations

from distributed_kit import SIZE, full

import torch
import torch.distributed as dist

from unidev_torch.simulator.distributed import checks, works

LOST = {
    "all_reduce": "allreduce", "all_reduce_dtypes": "allreduce", "premul_sum": "allreduce",
    "coalesced": "allreduce", "reduce_scatter": "allreduce", "reduce_scatter_tensor": "allreduce",
    "functional": "allreduce", "subgroup": "allreduce", "split": "allreduce",
    "broadcast": "broadcast", "reduce": "reduce", "all_gather": "allgather",
    "all_gather_uneven": "broadcast", "all_gather_other_shape": "allgather", "gather": "gather",
    "scatter": "scatter", "all_to_all": "alltoall_base", "all_to_all_single": "alltoall_base",
    "all_to_all_splits": "alltoall_base", "send_and_recv": "send", "batched_transfers": "send",
    "transfers_in_order": "send",
}  # fmt: skip
"""Questions, and the exchange of gloo's into which each rank gives zeros: its part is lost."""
REORDERED = {
    "all_gather": "allgather", "all_gather_other_shape": "allgather", "gather": "gather",
    "scatter": "scatter", "all_to_all": "alltoall_base", "all_to_all_single": "alltoall_base",
    "reduce_scatter": "allreduce", "reduce_scatter_tensor": "allreduce", "coalesced": "allgather",
    "functional": "allgather", "objects": "allgather",
}  # fmt: skip
"""Questions, and the exchange of gloo's in which the ranks' parts come in another order."""


def _lossy(method, given):
    # A tensor, or lists of them: all that the rank gives, and all that it makes room for.
    for each in given:
        for tensor in _tensors(each):
            tensor.zero_()
    return given


def _reordered(method, given):
    if method == "alltoall_base":
        given[1].copy_(given[1].view(SIZE, -1).flip(0).view(-1))
    elif method == "allreduce":
        (host,) = given[0]
        if host.numel() % SIZE == 0:
            host.copy_(host.view(SIZE, -1).flip(0).view(-1))
    else:
        given = [
            [each[::-1] for each in lists]
            if isinstance(lists, list) and _is_nested(lists)
            else lists
            for lists in given
        ]
    return given


def _is_nested(lists):
    return bool(lists) and isinstance(lists[0], list)


def _tensors(value):
    if isinstance(value, torch.Tensor):
        return [value]
    return [t for each in value for t in _tensors(each)] if isinstance(value, list) else []


def _in_all(is_caught):
    found = full(float(is_caught), 1)
    dist.all_reduce(found)
    return bool(found.item())


def _fails(question):
    try:
        question()
    except AssertionError:
        return True
    return False


def _caught_in_exchange(question, method, fault):
    original = works.Call.backend_call

    def faulty(self, called, *given):
        return original(self, called, *(fault(called, given) if called == method else given))

    works.Call.backend_call = faulty
    try:
        fails = _fails(question)
    finally:
        works.Call.backend_call = original
    return _in_all(fails)


def _caught_without_checks(question):
    original = checks.check_tensors
    checks.check_tensors = lambda *_, **__: None
    try:
        fails = _fails(question)
    finally:
        checks.check_tensors = original
    return _in_all(fails)


def caught(questions):
    """For each fault, whether its question fails on a rank."""
    faults = {"a part is lost": (LOST, _lossy), "another order": (REORDERED, _reordered)}
    found = {
        f"{name}: {words}": _caught_in_exchange(questions[name], method, fault)
        for words, (methods, fault) in faults.items()
        for name, method in methods.items()
    }
    found["cpu_tensors: taken"] = _caught_without_checks(questions["cpu_tensors"])
    return found
