"""Real GPUs: contexts that work leaves, and memory by the driver's count. PYTEST_DONT_REWRITE."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import unidev
from unidev_conformance.judging.outcomes import InconclusiveError
from unidev_conformance.kit.processes.fresh import run_fresh
from unidev_conformance.running.catalog import check

if TYPE_CHECKING:
    from unidev.device import Device
    from unidev_conformance.kit.workbench import Workbench

_BYTES = 64 * 2**20
_SLACK = 4 * 2**20
"""Allocators round sizes up."""
_CLOSE = 0.05
"""A fraction of all memory: other processes allocate between the two counts."""


@check(required=True)
def test_contexts_of_work(bench: Workbench) -> None:
    """Work on a GPU leaves a context there and on no other; work on the host leaves none."""
    last = len(bench.real_gpus()) - 1
    for call, wanted in _expected(last).items():
        found = run_fresh(_CALL, backend=bench.backend.name, arguments=(call,))
        if "unsupported" in found:
            bench.not_applicable(found["unsupported"])
        if "declined" in found:
            bench.evidence.add("declined", f"{call}: {found['declined']}")
            continue
        assert "error" not in found, f"`{call}` raises {found['error']}"
        contexts = set(found["contexts"])
        if not contexts and call == _FIRST:
            raise InconclusiveError(f"the probe reports no context after `{call}`: it sees nothing")
        least = set() if "memory(" in call else wanted  # counts may come without a context
        assert least <= contexts <= wanted, (
            f"`{call}` leaves contexts on {sorted(contexts)}, expected {sorted(wanted)}"
        )
        bench.evidence.add("contexts", f"{call}: {', '.join(sorted(contexts)) or 'none'}")


_FIRST = "unidev.zeros(4, device='gpu:0')"


def _expected(last: int) -> dict[str, set[str]]:
    """Calls, and the GPUs on which each may leave a context of a fresh process."""
    there = f"gpu:{last}"
    return {
        _FIRST: {"gpu:0"},
        "[device.name for device in unidev.list_devices()]": set(),
        "unidev.device_of(unidev.copy_to(unidev.zeros(4), 'cpu'))": set(),
        f"unidev.zeros(4, device='{there}')": {there},
        f"unidev.copy_to(unidev.zeros(4), '{there}')": {there},
        f"unidev.zeros(4, device='{there}'); unidev.synchronize()": {there},
        f"unidev.memory('{there}')": {there},
        f"with unidev.track_memory('{there}'): unidev.zeros(4, device='{there}')": {there},
    }


_CALL = """
import unidev

def contexts():
    return sorted(map(str, unidev.active_backend().probe.contexts()))

try:
    contexts()
except unidev.UnsupportedOperation as refusal:
    answer({"unsupported": refusal.reason})
else:
    try:
        exec(sys.argv[1])
    except unidev.UnsupportedOperation as refusal:
        answer({"declined": refusal.reason})
    except Exception as error:
        answer({"error": f"{type(error).__name__}: {error}"})
    else:
        answer({"contexts": contexts()})
"""


@check(required=True, needs=("memory",), over="real_gpus")
def test_memory_is_the_drivers(bench: Workbench, gpu: Device) -> None:
    """``memory`` of a GPU fits together, grows by what is held alone, and is as the driver has it.

    ``statistics.memory`` looks at the rest: what is dropped, and other devices.
    """
    kept = unidev.empty(1, device=gpu)  # the first use of a GPU takes memory of its own
    before = unidev.memory(gpu).used_bytes
    held = unidev.empty(_BYTES // 4, device=gpu)
    found = unidev.memory(gpu)
    grown = found.used_bytes - before
    assert _BYTES <= grown <= _BYTES + _SLACK, (
        f"{gpu}: {_BYTES} bytes more are allocated, and used_bytes grew by {grown}"
    )
    assert 0 <= found.free_bytes <= found.total_bytes - found.used_bytes, (
        f"{gpu}: free and used bytes are more than there are: {tuple(found)}"
    )
    driver = found.driver
    if driver is not None:
        for name in ("total_bytes", "free_bytes"):
            ours, drivers = getattr(found, name), getattr(driver, name)
            assert abs(ours - drivers) <= _CLOSE * driver.total_bytes, (
                f"{gpu}: {name} is {ours}, by the driver {drivers}"
            )
    bench.evidence.add("memory", f"{gpu}: {tuple(found)}, driver: {driver and tuple(driver[:3])}")
    del kept, held
    gc.collect()
