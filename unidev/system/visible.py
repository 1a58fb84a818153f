"""Which GPUs the environment leaves visible, read the way CUDA, ROCm and Level Zero read it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from unidev.system.facts import Gpu

VARIABLES = {
    # HIP reads CUDA's variable too: https://rocm.docs.amd.com/en/latest/conceptual/gpu-isolation.html
    "cuda": ("CUDA_VISIBLE_DEVICES",),
    "rocm": ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"),
    "xpu": ("ZE_AFFINITY_MASK", "ONEAPI_DEVICE_SELECTOR"),
}
LINKS = {
    "cuda": "https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#cuda-environment-variables",
    "rocm": "https://rocm.docs.amd.com/en/latest/conceptual/gpu-isolation.html",
    "xpu": "https://oneapi-src.github.io/level-zero-spec/level-zero/latest/core/PROG.html#environment-variables",
}

_RESTRICTING = {
    "CUDA_VISIBLE_DEVICES": ("CUDA_VISIBLE_DEVICES",),
    "HIP_VISIBLE_DEVICES": ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"),
    "ZE_AFFINITY_MASK": ("ZE_AFFINITY_MASK",),
}
"""The variable that leaves a process some GPUs, and those that may have left some before."""
_HIDING = {
    "CUDA_VISIBLE_DEVICES": "-1", "HIP_VISIBLE_DEVICES": "-1", "ONEAPI_DEVICE_SELECTOR": "*:cpu",
}  # fmt: skip
"""Level Zero's own mask hides none when it is empty."""

EMPTY = "empty"
OUT_OF_RANGE = "out of range"
UNKNOWN = "unknown"
REPEATED = "repeated"
SUBSET = "subset"

_ORDINAL = re.compile(r"[+-]?\d+")


@dataclass(frozen=True)
class Hiding:
    """A variable that hides GPUs."""

    variable: str
    value: str
    how: str
    """One of the constants above."""
    entry: str | None = None
    """The entry of the value at which reading stops."""
    shown: int = 0
    """The number of GPUs that remain visible."""


def hidden(
    environment: Mapping[str, str],
    accelerator: str,
    gpus: Sequence[Gpu] | None,
    *,
    unreadable: Sequence[int] = (),
) -> Hiding | None:
    """The first variable that hides a GPU of that accelerator, or None.

    ``gpus`` is None if the GPUs are unknown: then only a variable that hides all can be detected.
    ``unreadable`` are the indexes of those that the driver counts but does not describe.
    """
    found = [
        hiding
        for hiding, _ in _read(environment, accelerator, gpus, len(unreadable))
        if hiding is not None
    ]
    return next((each for each in found if each.how != SUBSET), next(iter(reversed(found)), None))


def visible_count(
    environment: Mapping[str, str], accelerator: str, gpus: Sequence[Gpu], unreadable: int
) -> int:
    """The number of GPUs that the variables leave visible, as CUDA or ROCm counts them.

    ``gpus`` are those that the driver describes; it counts ``unreadable`` more. If one of those
    left is divided (MIG), the number is 1: a process sees one instance at most, and then no card.
    """
    divided: set[int | None] = {gpu.index for gpu in gpus if gpu.parts}
    left: list[int | None] = list(range(len(gpus) + unreadable))
    for _, left in _read(environment, accelerator, gpus, unreadable):  # noqa: B007  the last counts
        pass
    return 1 if None in left or divided.intersection(left) else len(left)


def _read(
    environment: Mapping[str, str], accelerator: str, gpus: Sequence[Gpu] | None, unreadable: int
) -> Iterator[tuple[Hiding | None, list[int | None]]]:
    """The hiding by each variable, or None, and the indexes that it chooses; None: an instance."""
    there = None if gpus is None else {gpu.index: gpu for gpu in gpus}
    count = None if gpus is None else len(gpus) + unreadable
    for variable in applied(environment, accelerator):
        value, chosen = environment[variable], list[int | None]()
        if variable == "ONEAPI_DEVICE_SELECTOR":
            hiding = _selector(variable, value)
        elif variable == "ZE_AFFINITY_MASK" and not value.strip():
            hiding = None  # Level Zero treats that as unset
        else:
            hiding, chosen = _listed(variable, value, there, count)
            if there is not None and count is not None:
                # ROCR's variable comes first; HIP's counts among those that it leaves.
                there = {new: there[old] for new, old in enumerate(chosen) if old in there}
                count = len(chosen)
        yield hiding, chosen


def restriction(environment: Mapping[str, str], first: int, count: int) -> dict[str, str]:
    """Variables for a process that is to see ``count`` GPUs from number ``first`` on.

    Numbers count those that ``environment`` leaves visible. The variables of all vendors are there:
    each driver reads its own. Metal has none, as a Mac has one GPU.
    """
    if not count:
        return dict(_HIDING)
    found = {}
    for variable, sources in _RESTRICTING.items():
        values = (environment[name].strip() for name in sources if name in environment)
        entries = [entry.strip() for entry in next(values, "").split(",")]
        if entries == [""]:
            entries = [str(number) for number in range(first + count)]
        found[variable] = ",".join(entries[first : first + count])
    return found


def applied(environment: Mapping[str, str], accelerator: str) -> list[str]:
    """The variables that are set, in the order in which they apply."""
    names = [name for name in VARIABLES.get(accelerator, ()) if name in environment]
    if "HIP_VISIBLE_DEVICES" in names and "CUDA_VISIBLE_DEVICES" in names:
        names.remove("CUDA_VISIBLE_DEVICES")  # HIP reads it only where its own is not set
    return names


def _listed(
    variable: str, value: str, gpus: Mapping[int, Gpu] | None, count: int | None
) -> tuple[Hiding | None, list[int | None]]:
    """The hiding by a list of indexes or UUIDs, or None; and the indexes that it chooses.

    Reading stops at the first invalid entry. A GPU that is listed twice hides all, as PyTorch reads
    it too (``torch.cuda._parse_visible_devices``); Level Zero and ROCR count it once.
    """
    entries = [part.strip() for part in value.split(",")]
    repeats_hide = variable in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
    twice = _twice(entries) if repeats_hide else None
    if twice is not None:
        return Hiding(variable, value, REPEATED, twice), []
    chosen: list[int | None] = []
    stop: Hiding | None = None
    for place, entry in enumerate(entries):
        problem, index = _meant(entry, gpus, count)
        if problem is not None:
            stop = Hiding(variable, value, problem, entry, place)
            break
        if index is not None and index in chosen and repeats_hide:  # two abbreviations of one UUID
            return Hiding(variable, value, REPEATED, entry), []
        chosen += [] if index in chosen else [index]
    if stop is not None or gpus is None or count is None:
        return stop, chosen
    is_divided = any(gpu.mig_uuids for gpu in gpus.values())  # a process gets one part at most
    visible = sum(index in gpus for index in chosen)
    if not is_divided and visible < len(gpus):
        return Hiding(variable, value, SUBSET, None, visible), chosen
    return None, chosen


def _twice(entries: Sequence[str]) -> str | None:
    """The first entry that is there a second time, up to one at which reading stops."""
    seen: set[int | str] = set()
    for entry in entries:
        number = _ORDINAL.match(entry)
        if not entry or (number is not None and int(number[0]) < 0):
            return None
        key = entry if number is None else int(number[0])
        if key in seen:
            return entry
        seen.add(key)
    return None


def _meant(
    entry: str, gpus: Mapping[int, Gpu] | None, count: int | None
) -> tuple[str | None, int | None]:
    """The problem of an entry, or None; and its index, None if unknown, or part of a GPU."""
    number = _ORDINAL.match(entry)  # the rest is ignored: Level Zero's 0.1 is a tile of device 0
    if number is not None:
        index = int(number[0])
        if index < 0:
            return EMPTY, None  # -1 hides all
        return (None if count is None or index < count else OUT_OF_RANGE), index
    if not entry:
        return EMPTY, None
    if gpus is None and entry.startswith(("GPU-", "MIG-")):
        return None, None
    named = _named(entry, gpus)
    if named is None:
        return UNKNOWN, None
    return None, None if entry.startswith("MIG-") else named


def _named(entry: str, gpus: Mapping[int, Gpu] | None) -> int | None:
    """The index of the one GPU that ``entry`` names; None: it names none, or several."""
    named = [index for index, gpu in (gpus or {}).items() if _is_named(gpu, entry)]
    return named[0] if len(named) == 1 else None


def _is_named(gpu: Gpu, entry: str) -> bool:
    """Whether ``entry`` is an abbreviated or full UUID of ``gpu``; CUDA compares case."""
    if entry.startswith("GPU-") and gpu.uuid is not None:
        return gpu.uuid.startswith(entry)
    return entry.startswith("MIG-") and any(each.startswith(entry) for each in gpu.mig_uuids)


def _selector(variable: str, value: str) -> Hiding | None:
    """The hiding by oneAPI's selector, or None: ``backend:devices;…``; ``!`` before exclusions."""
    # https://github.com/intel/llvm/blob/sycl/sycl/doc/EnvironmentVariables.md
    parts = [part.strip() for part in value.split(";") if part.strip()]
    chosen = [part for part in parts if not part.startswith("!")]
    is_refused = not {"!*:*", "!*:gpu", "!level_zero:*", "!level_zero:gpu"}.isdisjoint(parts)
    if is_refused or (chosen and not any(map(_takes_gpu, chosen))):
        return Hiding(variable, value, EMPTY)
    return None


def _takes_gpu(part: str) -> bool:
    backend, _, devices = part.partition(":")
    return backend in ("*", "level_zero") and any(
        device.strip() != "cpu" and device.strip() != "fpga" for device in devices.split(",")
    )
