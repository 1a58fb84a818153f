"""Faults in the collectives of simulated GPUs, and whether a question catches each.

Every rank has the same fault. They agree in the end, since one fault may show on one rank only.
"""

# ruff: noqa: I001  torch after the simulator
from __future__ import annotations

from distributed_kit import SIZE, full

import torch
import torch.distributed as dist

from unidev_torch_simulator.distributed import checks, works
from unidev_torch_simulator.distributed.operators import kernels

LOST = {
    "all_reduce": "allreduce", "all_reduce_dtypes": "allreduce", "premul_sum": "allreduce",
    "coalesced": "allreduce", "reduce_scatter": "allreduce", "reduce_scatter_tensor": "allreduce",
    "functional": "allreduce", "subgroup": "allreduce", "split": "allreduce",
    "broadcast": "broadcast", "reduce": "reduce", "all_gather": "allgather",
    "all_gather_uneven": "broadcast", "all_gather_other_shape": "allgather", "gather": "gather",
    "scatter": "scatter", "all_to_all": "alltoall_base", "all_to_all_single": "alltoall_base",
    "all_to_all_splits": "alltoall_base", "send_and_recv": "send", "batched_transfers": "recv",
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
    if method == "recv":  # what comes goes elsewhere
        given = ([torch.empty_like(each) for each in given[0]], *given[1:])
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


def _caught_in_exchange(question, method, answer):
    original = works.Call.backend_call

    def faulty(self, called, *given):
        if called != method:
            return original(self, called, *given)
        _reached.add(self.name)
        return answer(lambda *others: original(self, called, *others), given)

    works.Call.backend_call = faulty
    try:
        fails = _fails(question)
    finally:
        works.Call.backend_call = original
    return _in_all(fails)


def _caught_without_checks(call, is_refused):
    original = checks.check_tensors
    checks.check_tensors = lambda *_, **__: None
    try:
        is_taken = not is_refused(call)
    finally:
        checks.check_tensors = original
    return _in_all(is_taken)


_reached = set()
"""The collectives, by torch's ``OpType``, in which a fault has been."""


def report(questions, cpu_calls, is_refused):
    """For each fault, whether its question fails on a rank; and the collectives without one."""
    faults = {"a part is lost": (LOST, _lossy), "another order": (REORDERED, _reordered)}
    found = {
        f"{name}: {words}": _caught_in_exchange(
            questions[name],
            method,
            lambda call, given, method=method, fault=fault: call(*fault(method, given)),
        )
        for words, (methods, fault) in faults.items()
        for name, method in methods.items()
    }
    found["barriers: no waiting"] = _caught_in_exchange(
        questions["barriers"], "barrier", lambda *_: works.done([])
    )
    for name, call in cpu_calls.items():
        found[f"{name}: a CPU tensor is taken"] = _caught_without_checks(call, is_refused)
    without = {name.removesuffix("_").upper() for name in kernels.KERNELS} - _reached
    return {"caught": found, "without": dict.fromkeys(sorted(without), True)}
