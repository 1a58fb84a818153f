"""The driver's GPUs in ``unidev info``: memory, utilisation, power and temperature; watched too."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from unidev.errors import UnsupportedOperation
from unidev.system.child_processes import LOOK_S, noticing_interruption
from unidev.system.facts import WORKS
from unidev.system.gpu_memory import free_text
from unidev.system.gpu_state import read_states
from unidev.system.nvml import ask_in_time, ask_nvml, import_nvml

if TYPE_CHECKING:
    from rich.console import Console

    from unidev.system.facts import Driver, Gpu
    from unidev.system.gpu_state import GpuState

    Answer = dict[str, Any]

BEAT_S = 2.0
"""Between two looks at GPUs that are watched."""
_WAIT_S = 3.0
_OF_A_GPU = (
    "index", "name", "uuid", "parent", "used_bytes", "total_bytes", "shares_host_memory",
)  # fmt: skip
_OF_ITS_STATE = ("utilisation_percent", "power_w", "power_limit_w", "temperature_c")
"""What a GPU has as a whole: the driver reports none of them for an instance (MIG)."""


def gpus() -> list[Answer]:
    """NVIDIA's GPUs, and instances (MIG), by the driver; creates no context.

    Each with ``utilisation_percent``, ``power_w``, ``power_limit_w`` and ``temperature_c``, which
    are None where the driver does not report them.
    """
    return _described(*_ask())


def bare_table(*columns: str) -> Table:
    """An empty table without lines, whose cells are folded where the terminal is narrow."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def gpu_table(described: list[Answer]) -> Table:
    """What ``gpus`` returns, a row for each."""
    table = bare_table("GPU", "name", "memory", "busy", "power", "temperature")
    for gpu in described:
        which = f", part of {gpu['parent']}" if gpu["parent"] else ""
        cells = (
            str(gpu["index"]),
            f"{gpu['name']}{which}",
            gpu["memory"] or "unknown",
            _number(gpu["utilisation_percent"], "%"),
            _power(gpu["power_w"], gpu["power_limit_w"]),
            _number(gpu["temperature_c"], "°C"),
        )
        table.add_row(*map(Text, cells))
    return table


def watch(console: Console) -> int:
    """Show the GPUs every two seconds until a signal comes; returns its exit code.

    Raises:
        UnsupportedOperation: the driver reports no GPU; also when it ceases to.
    """
    with noticing_interruption() as stop:
        table = _table_now()  # before the terminal is changed: there may be no GPU
        with Live(console=console, auto_refresh=False) as live:
            while not stop:
                hint = Text(f"{time.strftime('%H:%M:%S')}, every {BEAT_S:g} s; Ctrl-C ends it")
                live.update(Group(table, hint), refresh=True)
                until = time.monotonic() + BEAT_S
                while not stop and time.monotonic() < until:
                    time.sleep(LOOK_S)
                table = table if stop else _table_now()
    return stop.exit_code


def _table_now() -> Table:
    driver, states = _ask()
    if not driver.gpus:
        said = driver.message or ("" if driver.state == WORKS else driver.state)
        reason = f" ({said})" if said else ""
        raise UnsupportedOperation(
            "watching GPUs",
            f"NVIDIA's driver reports none here{reason}; `unidev doctor` finds out why",
        )
    return gpu_table(_described(driver, states))


def _ask() -> tuple[Driver, list[GpuState]]:
    """The driver's report, and the state of each GPU, within one time limit."""
    states: list[GpuState] = []

    def ask() -> Driver:
        nvml = import_nvml()
        driver = ask_nvml(nvml, lambda _: (None, ()))
        if driver.gpus:
            states.extend(read_states(nvml))
        return driver

    return ask_in_time(ask, _WAIT_S), states


def _described(driver: Driver, states: list[GpuState]) -> list[Answer]:
    by_index = {each.index: each for each in states}
    return [
        _fields(gpu, by_index.get(whole.index) if gpu is whole else None)
        for whole in driver.gpus
        for gpu in (whole, *whole.parts)
    ]


def _fields(gpu: Gpu, state: GpuState | None) -> Answer:
    return {
        **{name: getattr(gpu, name) for name in _OF_A_GPU},
        "memory": free_text(gpu),
        **{name: getattr(state, name, None) for name in _OF_ITS_STATE},
    }


def _number(value: float | None, unit: str) -> str:
    return "-" if value is None else f"{value:.0f} {unit}"


def _power(watts: float | None, limit: float | None) -> str:
    of = "" if watts is None or limit is None else f" of {limit:.0f} W"
    return f"{_number(watts, 'W')}{of}"
