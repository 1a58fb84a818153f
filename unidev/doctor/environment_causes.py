"""GPUs that work, hidden by a variable, or unusable in a forked process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unidev.doctor.facts import Finding, Remedy
from unidev.doctor.hardware_causes import has_gpu
from unidev.doctor.remedies import set_variable
from unidev.hardware.visible import EMPTY, LINKS, OUT_OF_RANGE, SUBSET, UNKNOWN, hidden

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from unidev.doctor.facts import Case
    from unidev.hardware.facts import Gpu, Machine
    from unidev.hardware.visible import Hiding

_FORK_PAGE = "https://docs.python.org/3/library/multiprocessing.html#contexts-and-start-methods"


def variables(case: Case) -> Iterator[Finding]:
    """``CUDA_VISIBLE_DEVICES`` or a similar variable hides an existing GPU."""
    machine = case.machine
    for accelerator in ("cuda", "rocm", "xpu"):
        if not has_gpu(machine, accelerator):
            continue
        gpus = machine.driver(accelerator).gpus
        hiding = hidden(machine.environment, accelerator, gpus or None)
        if hiding is not None:
            yield _finding(machine, hiding, gpus, LINKS[accelerator])


def _finding(machine: Machine, hiding: Hiding, gpus: Sequence[Gpu], link: str) -> Finding:
    name = hiding.variable
    shown = f"{name}={hiding.value!r}" if not hiding.value.strip() else f"{name}={hiding.value}"
    there = tuple(f"GPU {gpu.index}: {gpu.name}" + (f", {gpu.uuid}" if gpu.uuid else "")
                  for gpu in gpus)  # fmt: skip
    remedies = [Remedy("Unset it to make all GPUs visible.", set_variable(machine, name, None))]
    if hiding.how in (OUT_OF_RANGE, UNKNOWN) and gpus:
        every = ",".join(str(gpu.index) for gpu in gpus)
        remedies.append(Remedy("Or name existing GPUs.", set_variable(machine, name, every)))
    remedies.append(
        Remedy("Restart the program: the variable is read once, at the first use of a GPU.")
    )
    return Finding("visible-devices", _title(hiding, len(gpus)), (f"{shown}", *there),
                   tuple(remedies), link)  # fmt: skip


def _title(hiding: Hiding, count: int) -> str:
    name = hiding.variable
    stops = f"; entries after {hiding.entry!r} are ignored" if hiding.shown else ""
    return {
        EMPTY: f"{name} hides every {'further ' if hiding.shown else ''}GPU.",
        OUT_OF_RANGE: f"{name} names GPU {hiding.entry}, but the highest index is "
        f"{count - 1}{stops}.",
        UNKNOWN: f"{name} names {hiding.entry!r}, which is not a GPU of this machine{stops}.",
        SUBSET: f"{name} shows {hiding.shown} of {count} GPUs.",
    }[hiding.how]


def fork(case: Case) -> Iterator[Finding]:
    """CUDA was initialised before a fork: it works in the parent, but not in the child."""
    process = case.process
    if not (process.is_forked and process.holds_gpu and process.parent_holds_gpu):
        return
    yield Finding(
        "fork",
        "This process was forked after its parent had initialised the GPU.",
        (
            f"process {process.pid} is a fork of {process.parent}",
            f"both have opened {', '.join(process.holds_gpu)}",
        ),
        (
            Remedy("Start workers with spawn instead of fork.",
                   'multiprocessing.set_start_method("spawn")'),
            Remedy("Or fork before the GPU is first used."),
        ),
        _FORK_PAGE,
    )  # fmt: skip
