"""The table, as text: one row for each measurement; for the terminal and the page."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from unidev.bench.circumstances import circumstances
from unidev.bench.quantities import rate
from unidev.bench.results import BANDWIDTH, FLOOR, FORUM, PRODUCT, SUM, TEXTBOOK
from unidev.support.wording import bytes_text, number_text, seconds_text

if TYPE_CHECKING:
    from unidev.bench.results import Bench, Result

TITLES = {
    FLOOR: "The floor: one small operation",
    BANDWIDTH: "Transfers between devices, with copy_to",
    PRODUCT: "Products of square matrices, float32",
    SUM: "Sums of square matrices, float32",
    TEXTBOOK: "The textbook's exercises",
    FORUM: "Questions from forums",
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
    """What was measured, where and when."""
    devices = ", ".join(
        f"{each.device} (simulated, left out)" if each.is_simulated
        else f"{each.device} ({each.name})"
        for each in bench.devices
    )  # fmt: skip
    return [
        f"unidev bench {bench.unidev_version}: {bench.backend}, {bench.framework} "
        f"{bench.framework_version}",
        f"{bench.date}, {bench.platform}, Python {bench.python}, {bench.cores} cores",
        f"devices: {devices}",
        f"measured in {bench.seconds:.0f} s" + (", --full" if bench.is_full else ""),
        *circumstances(bench),
    ]


def _row(result: Result) -> Row:
    what = result.what
    if result.subject in (BANDWIDTH, PRODUCT, SUM) or "journey" in result.variant:
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
