"""Conclusions from the timings, as sentences: pure functions of the results."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from unidev.bench import tasks, textbook
from unidev.bench.results import FLOOR, HERE, JOURNEY, PRODUCT, SUM, TEXTBOOK, Crossover
from unidev.bench.spread import crossover, is_faster, ratio, times
from unidev.system.wording import seconds_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from unidev.bench.results import Bench
    from unidev.bench.spread import Summary

_CPU = "cpu:0"


def findings(bench: Bench) -> list[str]:
    """All conclusions, the most general first."""
    return [
        *_about_devices(bench),
        *_about_floors(bench),
        *_about_crossovers(bench),
        *_about_logging(bench),
        *_about_two_devices(bench),
    ]


def _about_devices(bench: Bench) -> Iterator[str]:
    if bench.simulated:
        names = ", ".join(each.device for each in bench.simulated)
        verb = "is" if len(bench.simulated) == 1 else "are"
        yield (
            f"{names} {verb} simulated and left out: simulated GPUs compute on the CPU, so their "
            "timings do not represent a GPU."
        )
    if not bench.gpus:
        yield (
            f"There is no real GPU here, so there is nothing to compare {_CPU} with. "
            "Run `unidev doctor` to find out why."
        )
    if bench.load is not None and bench.load > 0.5 * bench.cores:
        yield (
            f"The machine was busy at the start (a load of {bench.load:.1f} on {bench.cores} "
            "cores): timings are longer and vary more than on an idle machine."
        )


def _about_floors(bench: Bench) -> Iterator[str]:
    for device in [each.device for each in bench.real]:
        waited = bench.timing(FLOOR, what=tasks.WAITED, device=device)
        queued = bench.timing(FLOOR, what=tasks.QUEUED, device=device)
        read = bench.timing(FLOOR, what=tasks.READ, device=device)
        if waited and queued and read:
            yield (
                f"Minimum time of an operation on {device}: "
                f"{seconds_text(queued.median_s / tasks.QUEUED_COUNT)} queued among others, "
                f"{seconds_text(waited.median_s)} if waited for, "
                f"{seconds_text(read.median_s)} if read into Python."
            )


def _about_crossovers(bench: Bench) -> Iterator[str]:
    for each in crossovers(bench):
        pairs = _pairs(bench, each.subject, each.device, each.variant)
        if not pairs:
            continue
        how = "with the data on the device" if each.variant == HERE else "including transfers"
        largest = max(size for size, _, _ in pairs)
        said = f"not significantly faster than {_CPU} up to {largest:,} rows"
        if each.rows is not None:
            said = f"faster than {_CPU} from {each.rows:,} rows on"
        if each.missing:
            *others, last = (f"{size:,}" for size in each.missing)
            listed = f"{', '.join(others)} and {last}" if others else last
            said += f", as far as measured: {listed} rows are missing"
        yield f"A {each.subject} of square matrices, {how}: {each.device} is {said}."


def _pairs(
    bench: Bench, subject: str, gpu: str, variant: str
) -> list[tuple[int, Summary, Summary]]:
    """Sizes for which both the CPU and the GPU were measured."""
    on_cpu = {each.size: each.summary for each in bench.find(subject, device=_CPU, variant=HERE)}
    found = []
    for each in bench.find(subject, device=gpu, variant=variant):
        cpu = on_cpu.get(each.size)
        if each.size is not None and each.summary is not None and cpu is not None:
            found.append((each.size, cpu, each.summary))
    return found


def crossovers(bench: Bench) -> list[Crossover]:
    """The number of rows from which a GPU is faster, by GPU, subject and variant."""
    found = []
    for gpu, subject, variant in product(bench.gpus, (PRODUCT, SUM), (HERE, JOURNEY)):
        pairs = _pairs(bench, subject, gpu, variant)
        wanted = {each.size for each in bench.find(subject) if each.size is not None}
        missing = sorted(wanted - {size for size, _, _ in pairs})
        found.append(
            Crossover(
                subject=subject,
                device=gpu,
                variant=variant,
                rows=crossover(pairs),
                missing=tuple(missing),
            )
        )
    return found


def _about_logging(bench: Bench) -> Iterator[str]:
    for device in [each.device for each in bench.real]:
        logged = bench.timing(TEXTBOOK, what=textbook.LOGGED, device=device)
        kept = bench.timing(TEXTBOOK, what=textbook.KEPT, device=device)
        if logged and kept:
            yield f"Logging each of {textbook.PRODUCTS:,} norms on {device} " + _against(
                logged, kept, "keeping them there and reading once"
            )


def _about_two_devices(bench: Bench) -> Iterator[str]:
    for each in bench.find(TEXTBOOK, what=textbook.AT_ONCE):
        apart = bench.timing(TEXTBOOK, what=textbook.ONE_BY_ONE, device=each.device)
        if each.summary and apart:
            yield f"Using {each.device} one after the other " + _against(
                apart, each.summary, "using both at once"
            )


def _against(a: Summary, b: Summary, other: str) -> str:
    numbers = f"({seconds_text(a.median_s)} against {seconds_text(b.median_s)})"
    if is_faster(b, a):
        return f"takes {times(ratio(a, b))} as long as {other} {numbers}."
    if is_faster(a, b):
        return f"is {times(ratio(b, a))} as fast as {other} {numbers}."
    return f"and {other} are too close to call {numbers}."
