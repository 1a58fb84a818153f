"""Counts of a GPU's memory, its peak, and what happens when it is full."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import unidev
from hardware_report.outcome import Findings, Outcome
from unidev.support.wording import bytes_text

if TYPE_CHECKING:
    from hardware_report.setting import Setting
    from unidev.contract.device import Device

SIZE = 64 * 2**20
SLACK = 4 * 2**20
"""Allocators round sizes up."""


def counts(setting: Setting) -> Outcome:
    """``memory`` of each GPU grows by what is allocated and shrinks when it is dropped."""
    found, rows = Findings(), []
    for gpu in setting.gpus():
        unidev.empty(1, device=gpu)  # the first use of a GPU takes memory of its own
        before = unidev.memory(gpu)
        kept = unidev.empty(SIZE // 4, device=gpu)
        during = unidev.memory(gpu)
        del kept
        gc.collect()
        after = unidev.memory(gpu)
        grown = during.used_bytes - before.used_bytes
        found.expect(
            SIZE <= grown <= SIZE + SLACK,
            f"{gpu}: {bytes_text(SIZE)} more are allocated, but used_bytes grew by {grown:,} bytes",
        )
        found.expect(
            after.used_bytes <= before.used_bytes + SLACK,
            f"{gpu}: used_bytes did not return: {before.used_bytes:,}, then {after.used_bytes:,}",
        )
        found.expect(
            0 <= during.free_bytes <= during.total_bytes - during.used_bytes,
            f"{gpu}: free and used bytes are more than there are: {tuple(during)}",
        )
        driver = during.driver
        if driver is not None:
            found.expect(
                abs(driver.total_bytes - during.total_bytes) <= 0.05 * driver.total_bytes,
                f"{gpu}: {during.total_bytes:,} bytes in total, by the driver "
                f"{driver.total_bytes:,}",
            )
            found.expect(
                abs(driver.free_bytes - during.free_bytes) <= 0.05 * driver.total_bytes,
                f"{gpu}: {during.free_bytes:,} bytes are free, by the driver {driver.free_bytes:,}",
            )
        for when, memory in (("before", before), ("with 64 MiB more", during), ("after", after)):
            shown = "unknown" if memory.driver is None else bytes_text(memory.driver.used_bytes)
            rows.append((gpu, when, *map(bytes_text, memory), shown))
    found.table("Memory", ("device", "when", "used", "free", "total", "by the driver"), rows)
    return found.outcome()


def peak(setting: Setting) -> Outcome:
    """``track_memory`` sees a peak that is over when the block ends, also as the first use."""
    found, rows = Findings(), []
    for gpu in setting.gpus():
        for state in ("cold", "warm"):
            with unidev.track_memory(gpu) as tracked:
                kept = [unidev.empty(SIZE // 4, device=gpu) for _ in range(2)]
                kept.pop()
            added = tracked.added_bytes
            del kept
            found.expect(
                2 * SIZE <= added <= 2 * SIZE + SLACK,
                f"{gpu}, {state}: the peak of 128 MiB is counted as {added:,} bytes",
            )
            rows.append((gpu, state, bytes_text(added)))
    found.table("Peak of two tensors of 64 MiB", ("device", "state", "added"), rows)
    return found.outcome()


def lack(setting: Setting) -> Outcome:
    """A request for more than there is raises unidev's error, and the GPU stays usable."""
    found, rows = Findings(), []
    for gpu in setting.gpus():
        total = unidev.memory(gpu).total_bytes
        error = _of_too_much(gpu, 2 * total)
        found.expect(
            isinstance(error, unidev.OutOfDeviceMemoryError),
            f"{gpu}: a request for {bytes_text(2 * total)} raised {error!r}",
        )
        rows.append((gpu, bytes_text(2 * total), str(error)))
        before = unidev.memory(gpu).used_bytes
        x = unidev.array(list(range(1000)), device="cpu")
        back = unidev.copy_to(unidev.copy_to(x, gpu), "cpu")
        is_same = unidev.to_numpy(back).tolist() == list(range(1000))
        found.expect(is_same, f"{gpu}: after the error, a copy there and back has other values")
        gc.collect()
        left = unidev.memory(gpu).used_bytes - before
        found.expect(left <= SLACK, f"{gpu}: after the error, {left:,} bytes stay in use")
    found.table("Lack of memory", ("device", "requested", "error"), rows)
    return found.outcome()


def _of_too_much(gpu: Device, size: int) -> BaseException | None:
    try:
        unidev.empty(size // 4, device=gpu)
    except (unidev.UnidevError, RuntimeError, MemoryError) as error:
        return error.with_traceback(None)
    return None
