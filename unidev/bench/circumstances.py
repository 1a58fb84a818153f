"""What the timings depend on, as text: the driver, the framework's settings, clocks and power."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from unidev.bench.results import Bench, GpuRecord
    from unidev.hardware.gpu_state import GpuState


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
    modes = [
        f"{name} {value}"
        for name, value in (("ECC", first.ecc), ("MIG", first.mig))
        if value is not None
    ]
    yield ", ".join([f"the driver's GPU {first.index}: {first.name}, {first.uuid}", *modes])
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
