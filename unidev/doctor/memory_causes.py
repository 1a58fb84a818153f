"""GPUs that are visible but whose memory is used by another process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unidev.doctor.facts import Finding, Remedy
from unidev.doctor.remedies import set_variable
from unidev.support.wording import bytes_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from unidev.doctor.facts import Case
    from unidev.hardware.facts import Gpu, GpuProcess, Machine

_LEAST_FREE = 0.1
"""With less than this fraction of its memory free, a GPU counts as full."""

_GREEDY = {
    "TensorFlow": ("TF_FORCE_GPU_ALLOW_GROWTH", "true",
                   "https://www.tensorflow.org/guide/gpu#limiting_gpu_memory_growth"),
    "JAX": ("XLA_PYTHON_CLIENT_PREALLOCATE", "false",
            "https://docs.jax.dev/en/latest/gpu_memory_allocation.html"),
}  # fmt: skip
"""Frameworks that allocate all of a GPU's memory at first use, and how to prevent it."""


def memory(case: Case) -> Iterator[Finding]:
    """A GPU's memory is nearly full; names the processes that use it."""
    for gpu in (part for each in case.machine.gpus for part in each.parts or (each,)):
        if gpu.used_bytes is None or not gpu.total_bytes or gpu.shares_host_memory:
            continue  # what uses the host's memory is no process of the GPU's
        if gpu.total_bytes - gpu.used_bytes < _LEAST_FREE * gpu.total_bytes:
            yield _taken(case.machine, gpu)


def _taken(machine: Machine, gpu: Gpu) -> Finding:
    holders = sorted(gpu.processes, key=lambda each: each.used_bytes or 0, reverse=True)
    frameworks = list(dict.fromkeys(name for each in holders for name in each.frameworks))
    greedy = [name for name in frameworks if name in _GREEDY]
    which = f"GPU {gpu.index}" if gpu.parent is None else f"{gpu.name}, part of {gpu.parent},"
    assert gpu.used_bytes is not None
    evidence = (
        f"{bytes_text(gpu.used_bytes)} of {bytes_text(gpu.total_bytes or 0)} are in use",
        *(_holder(each) for each in holders),
        *(() if holders else ("the driver does not report whose: another container or user",)),
    )
    is_between = len(frameworks) > 1
    return Finding(
        "two-frameworks" if is_between else "memory-taken",
        f"{' and '.join(frameworks)} share {which}, and "
        + (f"{greedy[0]} has allocated its memory." if greedy else "its memory is full.")
        if is_between
        else f"The memory of {which} is used by {_whom(holders)}.",
        evidence,
        tuple(_remedies(machine, greedy, holders)),
        _GREEDY[greedy[0]][2] if greedy else None,
        is_blocking=False,
    )


def _remedies(
    machine: Machine, greedy: Sequence[str], holders: Sequence[GpuProcess]
) -> Iterator[Remedy]:
    for name in greedy:
        variable, value, _ = _GREEDY[name]
        yield Remedy(
            f"{name} allocates all memory at once; before starting it, make it allocate on demand.",
            set_variable(machine, variable, value),
        )
    own = next((each for each in holders if each.name), None)
    if own is not None:
        stop = f"Stop-Process -Id {own.pid}" if machine.system == "Windows" else f"kill {own.pid}"
        yield Remedy(f"Wait for process {own.pid}, or end it if it is not needed.", stop)
    elif holders:
        yield Remedy("Wait for that process: it belongs to another user, or to another container.")
    yield Remedy("Or use another GPU.")


def _whom(holders: Sequence[GpuProcess]) -> str:
    if not holders:
        return "an unknown process"
    return f"process {holders[0].pid}" + (f" ({holders[0].name})" if holders[0].name else "")


def _holder(process: GpuProcess) -> str:
    has = "an unknown amount" if process.used_bytes is None else bytes_text(process.used_bytes)
    inside = f", with {' and '.join(process.frameworks)}" if process.frameworks else ""
    return f"process {process.pid}: {process.name or 'name unknown'}: {has}{inside}"
