"""GPUs that work, hidden by a variable, or unusable in a forked process; another backend."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unidev.backends.discovery import EMBEDDED
from unidev.doctor.facts import Finding, Remedy
from unidev.doctor.hardware_causes import has_gpu
from unidev.doctor.remedies import set_variable
from unidev.system import visible
from unidev.system.settings import BACKEND

if TYPE_CHECKING:
    from collections.abc import Iterator

    from unidev.doctor.facts import Case
    from unidev.system.facts import Machine
    from unidev.system.visible import Hiding

_FORK_PAGE = "https://docs.python.org/3/library/multiprocessing.html#contexts-and-start-methods"


def chosen_backend(case: Case) -> Iterator[Finding]:
    """``UNIDEV_BACKEND`` names a backend that is not there, or NumPy beside GPUs."""
    name, there = case.chosen, [each.backend for each in case.frameworks]
    if name is None or name in there or (name == EMBEDDED and not case.machine.gpus):
        return
    title = f"UNIDEV_BACKEND names {name}, which is not installed here."
    if name == EMBEDDED:
        title = "UNIDEV_BACKEND names NumPy, which uses no GPU."
    others = [
        Remedy(f"Or name one that is there: {', '.join(there)}.",
               set_variable(case.machine, BACKEND, there[0]))
    ] if there else []  # fmt: skip
    yield Finding(
        "backend",
        title,
        (f"UNIDEV_BACKEND={name}",),
        (Remedy("Unset it.", set_variable(case.machine, BACKEND, None)), *others),
    )


def variables(case: Case) -> Iterator[Finding]:
    """``CUDA_VISIBLE_DEVICES`` or a similar variable hides an existing GPU."""
    machine = case.machine
    for accelerator in ("cuda", "rocm", "xpu"):
        if not has_gpu(machine, accelerator):
            continue
        hiding = case.hiding(accelerator)
        # An index may count the GPUs of the host, of which a container sees one.
        is_used = hiding is not None and not hiding.shown and case.is_seen(accelerator)
        if hiding is not None and not is_used:
            yield _finding(machine, hiding, accelerator)


def _finding(machine: Machine, hiding: Hiding, accelerator: str) -> Finding:
    name, gpus = hiding.variable, machine.driver(accelerator).gpus
    applied = [(each, machine.environment[each])
               for each in visible.applied(machine.environment, accelerator)]  # fmt: skip
    values = [f"{each}={value if value.strip() else repr(value)}" for each, value in applied]
    there = tuple(f"GPU {gpu.index}: {gpu.name}" + (f", {gpu.uuid}" if gpu.uuid else "")
                  for gpu in gpus)  # fmt: skip
    remedies = [Remedy("Unset it to make all GPUs visible.", set_variable(machine, name, None))]
    if hiding.how in (visible.OUT_OF_RANGE, visible.REPEATED, visible.UNKNOWN) and gpus:
        every = ",".join(str(gpu.index) for gpu in gpus)
        remedies.append(Remedy("Or name existing GPUs.", set_variable(machine, name, every)))
    remedies.append(
        Remedy("Restart the program: the variable is read once, at the first use of a GPU.")
    )
    unreadable = [each.index for each in machine.driver(accelerator).unreadable]
    highest = max([each.index for each in gpus] + unreadable, default=0)
    return Finding(
        "visible-devices",
        _title(hiding, len(gpus), highest),
        (*values, *there),
        tuple(remedies),
        visible.LINKS[accelerator],
        # Schedulers choose GPUs for each of their jobs, which is not a mistake.
        is_blocking=hiding.how != visible.SUBSET,
    )


def _title(hiding: Hiding, count: int, highest: int) -> str:
    name = hiding.variable
    stops = f"; entries after {hiding.entry!r} are ignored" if hiding.shown else ""
    return {
        visible.EMPTY: f"{name} hides every {'further ' if hiding.shown else ''}GPU.",
        visible.OUT_OF_RANGE: f"{name} names GPU {hiding.entry}, but the highest index is "
        f"{highest}{stops}.",
        visible.UNKNOWN: f"{name} names {hiding.entry!r}, which is not a GPU of this machine"
        f"{stops}.",
        visible.REPEATED: f"{name} names GPU {hiding.entry} twice, which hides every GPU.",
        visible.SUBSET: f"{name} shows {hiding.shown} of {count} GPUs.",
    }[hiding.how]


def changed_too_late(case: Case) -> Iterator[Finding]:
    """A variable was changed in this process, which has initialised the driver: before or after."""
    for each in case.process.changes:
        accelerator = next(
            name for name, those in visible.VARIABLES.items() if each.variable in those
        )
        is_seen = each.line is not None
        at = f"changed at {each.line}" if is_seen else "not seen: which line, and when"
        yield Finding(
            "changed-too-late",
            f"{each.variable} was changed after the driver had been initialised in this process, "
            "which has no effect."
            if is_seen
            else f"{each.variable} was changed in this process, perhaps after the driver had been "
            "initialised, which would have no effect.",
            (str(each), at, f"process {case.process.pid} has opened {each.file}"),
            (
                Remedy("Set it before Python starts, or before the first use of a GPU."),
                *(() if is_seen else (_TRACE,)),
            ),
            visible.LINKS[accelerator],
            is_blocking=is_seen or not all(map(case.sees_all, case.frameworks)),
        )


_TRACE = Remedy("The line is found by a trace.", "unidev trace PROGRAM")


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
