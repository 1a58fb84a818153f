"""GPUs that are visible but whose memory is used by another process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unidev.doctor.facts import Finding, Remedy
from unidev.doctor.remedies import set_variable
from unidev.system.wording import bytes_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from unidev.backends.known_frameworks import KnownFramework
    from unidev.doctor.facts import Case
    from unidev.system.facts import Gpu, GpuProcess, Machine

_LEAST_FREE = 0.1
"""With less than this fraction of its memory free, a GPU counts as full."""


def memory(case: Case) -> Iterator[Finding]:
    """A GPU's memory is nearly full; names the processes that use it."""
    for gpu in (part for each in case.machine.gpus for part in each.parts or (each,)):
        if gpu.used_bytes is None or not gpu.total_bytes or gpu.shares_host_memory:
            continue  # what uses the host's memory is not a process of the GPU's
        if gpu.total_bytes - gpu.used_bytes < _LEAST_FREE * gpu.total_bytes:
            yield _taken(case, gpu)


def _taken(case: Case, gpu: Gpu) -> Finding:
    holders = sorted(gpu.processes, key=lambda each: each.used_bytes or 0, reverse=True)
    found = {each.title: each for holder in holders for each in case.frameworks_in(holder)}
    greedy = [each for each in found.values() if each.sharing]
    which = f"GPU {gpu.index}" if gpu.parent is None else f"{gpu.name}, part of {gpu.parent},"
    first = holders[0] if holders else None
    named = f" ({first.name})" if first and first.name else ""
    whom = f"process {first.pid}{named}" if first else "an unknown process"
    assert gpu.used_bytes is not None
    evidence = (
        f"{bytes_text(gpu.used_bytes)} of {bytes_text(gpu.total_bytes or 0)} are in use",
        *(_holder(case, each) for each in holders),
        *(() if holders else ("the driver does not report whose: another container or user",)),
    )
    is_between = len(found) > 1
    return Finding(
        "two-frameworks" if is_between else "memory-taken",
        f"{' and '.join(found)} share {which}, and "
        + (f"{greedy[0].title} has allocated its memory." if greedy else "its memory is full.")
        if is_between
        else f"The memory of {which} is used by {whom}.",
        evidence,
        tuple(_remedies(case.machine, greedy, holders)),
        greedy[0].sharing_page if greedy else None,
        is_blocking=False,
    )


def _remedies(
    machine: Machine, greedy: Sequence[KnownFramework], holders: Sequence[GpuProcess]
) -> Iterator[Remedy]:
    for each in greedy:
        yield Remedy(
            f"{each.title} allocates all memory at once; before starting it, make it allocate on "
            "demand.",
            "; ".join(set_variable(machine, *item) for item in each.sharing.items()),
        )
    own = next((each for each in holders if each.name), None)
    if own is not None:
        stop = f"Stop-Process -Id {own.pid}" if machine.system == "Windows" else f"kill {own.pid}"
        yield Remedy(f"Wait for process {own.pid}, or end it if it is not needed.", stop)
    elif holders:
        yield Remedy("Wait for that process: it belongs to another user, or to another container.")
    yield Remedy("Or use another GPU.")


def _holder(case: Case, process: GpuProcess) -> str:
    has = "an unknown amount" if process.used_bytes is None else bytes_text(process.used_bytes)
    titles = " and ".join(each.title for each in case.frameworks_in(process))
    inside = f", with {titles}" if titles else ""
    return f"process {process.pid}: {process.name or 'name unknown'}: {has}{inside}"
