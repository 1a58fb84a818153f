"""The diagnosis as text: the causes in order, then what each framework sees."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from unidev.doctor.diagnosis import is_healthy
from unidev.system.facts import MAKERS, WORKS
from unidev.system.gpu_memory import free_text
from unidev.system.tables import Table
from unidev.system.wording import count_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from unidev.doctor.facts import Case, Finding, Framework
    from unidev.system.facts import Driver


def print_diagnosis(case: Case, findings: Sequence[Finding], console: Console) -> None:
    """Print the complete diagnosis."""
    healthy = is_healthy(case, findings)
    verdict = _verdict(case, findings, healthy=healthy)
    console.print(Text(verdict, style="bold green" if healthy else "bold"))
    for number, finding in enumerate(findings, start=1):
        console.print()
        _print_finding(number, finding, console)
    if case.frameworks:
        console.print()
        console.print(_table(case))
    if case.machine.gpus:
        console.print()
        for driver in case.machine.drivers:
            _print_driver(driver, console)


def _verdict(case: Case, findings: Sequence[Finding], *, healthy: bool) -> str:
    count = len(case.machine.gpus)
    if case.is_seen_by_frameworks_alone:
        who = "Every framework sees" if healthy else "Not every framework sees"
        return f"{who} a GPU, but no driver reports one."
    if healthy:
        visible = max(case.expected(each) for each in case.frameworks if each.takes_gpus)
        # Of GPUs that are partitioned (MIG), a process sees a part.
        if visible < count and not any(gpu.mig_uuids for gpu in case.machine.gpus):
            return f"Every framework sees every GPU that is visible to it: {visible} of {count}."
        return f"Every framework sees every GPU: {count}."
    if not count:
        if any(each.cause == "simulated" and not each.is_blocking for each in findings):
            return "No real GPU can be used: no driver sees one. unidev's GPUs are simulated."
        return "No GPU can be used: no driver sees one."
    be, them = ("is", "it") if count == 1 else ("are", "them")
    return f"There {be} {count_text(count, 'GPU')}, but {_who_does_not(case, them)}."


def _who_does_not(case: Case, them: str) -> str:
    able = [each for each in case.frameworks if each.takes_gpus]
    short = [each.backend for each in able if not case.sees_all(each)]
    every = "it" if them == "it" else "all"
    if not able:
        return f"no framework to use {them}"
    if not short:
        return f"a problem prevents {them} from being used"
    return f"{', '.join(short)} {'does' if len(short) == 1 else 'do'} not see {every}"


def _print_finding(number: int, finding: Finding, console: Console) -> None:
    style = "bold red" if finding.is_blocking else "yellow"
    console.print(Text(f"{number}. {finding.title}", style=style))
    for line in finding.evidence:
        console.print(Text(f"   found: {line}"))
    for remedy in finding.remedies:
        console.print(Text(f"   do:    {remedy.text}"))
        if remedy.command:
            console.print(Text(f"          {remedy.command}", style="cyan"))
    if finding.link:
        console.print(Text(f"   see:   {finding.link}"))


def _table(case: Case) -> Table:
    rows = []
    for each in case.frameworks:
        seen = "?" if each.gpus_seen is None else str(each.gpus_seen)
        version = f"{each.framework} {each.version or ''}".rstrip()
        count = f"{seen} of {case.expected(each)}" if each.takes_gpus else "not supported"
        rows.append((each.backend, version, built_for(each), count))
    return Table(("backend", "framework", "built for", "GPUs seen"), rows)


def built_for(framework: Framework) -> str:
    """``CUDA 12.6``, ``CPU only``, or ``unknown``."""
    build = framework.build
    if framework.state != WORKS:
        return framework.state
    if build is None:
        return "unknown"
    if build.accelerator is None:
        return "CPU only"
    name = {"rocm": "ROCm"}.get(build.accelerator, build.accelerator.upper())
    return f"{name} {build.version or ''}".rstrip()


def _print_driver(driver: Driver, console: Console) -> None:
    maker = MAKERS[driver.accelerator]
    version = f" {driver.version}" if driver.version else ""
    runs = f", CUDA up to {driver.cuda_version}" if driver.cuda_version else ""
    for gpu in driver.gpus:
        which = f"{maker}'s driver{version}{runs}: GPU {gpu.index}, {gpu.name}"
        console.print(_enumerated(which, gpu.architecture, free_text(gpu)))
        for part in gpu.parts:
            console.print(_enumerated(f"   {part.name} of {part.parent}", free_text(part)))


def _enumerated(*words: str | None) -> Text:
    return Text(", ".join(filter(None, words)))
