"""The results as text: circumstances, one row for each measurement, and what a terminal shows."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

from unidev.bench.results import BANDWIDTH, FLOOR, PRODUCT, SUM, TEXTBOOK
from unidev.bench.spread import rate
from unidev.system.wording import bytes_text, number_text, plain, seconds_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from unidev.bench.results import Bench, DeviceRecord, GpuRecord, Result
    from unidev.system.gpu_state import GpuState


def circumstances(bench: Bench) -> Iterator[str]:
    """The lines of a report; none where no GPU was measured."""
    if not bench.gpus:
        return
    driver = [f"NVIDIA's driver {bench.driver}"] if bench.driver else []
    settings = [f"{name}: {value}" for name, value in bench.settings.items()]
    if driver or settings:
        yield "; ".join(driver + settings)
    for record in bench.gpu_states:
        yield from _state(record)


def _state(record: GpuRecord) -> Iterator[str]:
    """Clocks, power and modes of one GPU, before and after."""
    first = record.before
    cores = [] if first.cores is None else [f"{first.cores:,} cores"]
    modes = [
        f"{name} {value}"
        for name, value in (("ECC", first.ecc), ("MIG", first.mig))
        if value is not None
    ]
    yield ", ".join([f"the driver's GPU {first.index}: {first.name}, {first.uuid}", *cores, *modes])
    for when, state in (("before", record.before), ("after", record.after)):
        if state is not None:
            yield f"  {when}: {_clocks(state)}"


def _clocks(state: GpuState) -> str:
    parts = [state.performance_state]
    for name, now, most in (
        ("SM", state.sm_mhz, state.sm_most_mhz),
        ("memory", state.memory_mhz, state.memory_most_mhz),
    ):
        if now is not None:
            parts.append(f"{name} {now:,} of {most:,} MHz" if most else f"{name} {now:,} MHz")
    if state.power_w is not None:
        limit = f" of {state.power_limit_w:.0f}" if state.power_limit_w else ""
        parts.append(f"{state.power_w:.0f}{limit} W")
    if state.temperature_c is not None:
        parts.append(f"{state.temperature_c} °C")
    if state.throttled_by not in (None, "0x0"):
        parts.append(f"clocks held down by {state.throttled_by}")
    return ", ".join(part for part in parts if part) or "the driver reports nothing"


TITLES = {
    FLOOR: "The floor: one small operation",
    BANDWIDTH: "Transfers between devices, with copy_to",
    PRODUCT: "Products of square matrices, float32",
    SUM: "Sums of square matrices, float32",
    TEXTBOOK: "The textbook's exercises",
}
"""Each subject, in order."""

COLUMNS = ("what", "device", "size", "median", "half of all", "remark")


class Row(NamedTuple):
    """One row of the table; cells may be empty."""

    what: str
    device: str
    size: str
    median: str
    spread: str
    remark: str


def rows(bench: Bench, subject: str) -> list[Row]:
    """The rows of one subject; a missing timing is replaced by the reason."""
    return [_row(each) for each in bench.find(subject)]


def heading(bench: Bench) -> list[str]:
    """The lines above the tables: backend, machine, date, devices, and the circumstances."""
    devices = ", ".join(
        f"{each.device} (simulated, left out)" if each.is_simulated
        else f"{each.device} ({each.name}{_memory(each)})"
        for each in bench.devices
    )  # fmt: skip
    clock = "" if bench.cpu_mhz is None else f" at {bench.cpu_mhz:,} MHz"
    return [
        f"unidev bench {bench.unidev_version}: {bench.backend}, {bench.framework} "
        f"{bench.framework_version}",
        f"{bench.date}, {bench.platform}, Python {bench.python}, {bench.cores} cores{clock}",
        f"devices: {devices}",
        f"measured in {bench.seconds:.0f} s" + (", --full" if bench.is_full else ""),
        *circumstances(bench),
    ]


def _memory(device: DeviceRecord) -> str:
    if device.total_bytes is None:
        return ""
    shared = " shared with the host" if device.is_memory_shared else ""
    return f", {bytes_text(device.total_bytes)}{shared}"


def _row(result: Result) -> Row:
    what = result.what
    if result.subject in (BANDWIDTH, PRODUCT, SUM):
        what = f"{what}, {result.variant}"
    size = ""
    if result.size is not None:
        is_bytes = result.subject == BANDWIDTH
        size = bytes_text(result.size) if is_bytes else f"{result.size:,}"
    timing = result.summary
    if timing is None:
        return Row(what, result.device, size, "none", "", result.reason or "")
    median, low, high = map(seconds_text, timing[:3])
    remark = _speed(result, timing.median_s)
    return Row(what, result.device, size, median, f"{low} to {high}", remark)


def _speed(result: Result, median_s: float) -> str:
    if result.size is None or median_s <= 0:
        return ""
    if result.subject == BANDWIDTH:
        return rate(result.size / median_s)
    if result.subject == PRODUCT:
        return f"{number_text(2 * result.size**3 / median_s / 1e9)} GFLOP/s"
    return ""


_WIDTH = 10_000
"""A file is not wrapped."""


def to_text(bench: Bench, findings: list[str]) -> str:
    """The printed text, without colours."""
    file = io.StringIO()
    print_table(bench, findings, Console(file=file, width=_WIDTH, highlight=False, emoji=False))
    return "".join(f"{line.rstrip()}\n" for line in plain(file.getvalue()).splitlines())


def print_table(bench: Bench, findings: list[str], console: Console) -> None:
    """Print the tables and the findings."""
    for line in heading(bench):
        console.print(Text(line))
    for subject, title in TITLES.items():
        found = rows(bench, subject)
        if not found:
            continue
        console.print()
        console.print(Text(title, style="bold"))
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for column in COLUMNS:
            table.add_column(column, justify="right" if column == "size" else "left")
        for row in found:
            table.add_row(*(Text(cell) for cell in row))
        console.print(table)
    console.print()
    for sentence in findings:
        console.print(Text(sentence))
