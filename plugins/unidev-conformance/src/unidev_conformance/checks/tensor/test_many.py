"""Three devices and more, for faults that two cannot show. PYTEST_DONT_REWRITE."""

from __future__ import annotations

from typing import TYPE_CHECKING

import unidev
from unidev_conformance.kit.inputs import samples
from unidev_conformance.running.catalog import check

if TYPE_CHECKING:
    from unidev_conformance.kit.workbench import Workbench


@check(required=True)
def test_all_pairs_copy(bench: Workbench) -> None:
    """Between any two of all devices a copy is a copy, and no two copies share memory."""
    devices = bench.several(3)
    held = []
    for number, source in enumerate(devices):
        x = bench.make(samples.counting((1_000,)) + number, source)
        held.append(x)
        for target in devices:
            y = unidev.copy_to(x, target)
            bench.oracle.check_device(y, target, f"{source} to {target}")
            bench.oracle.check_copy(x, y, target, f"{source} to {target}")
            held.append(y)
    for number, x in enumerate(held):
        for y in held[:number]:
            bench.oracle.check_disjoint(x, y, f"tensor {number} of {len(held)} and an earlier one")


@check(required=True)
def test_scope_per_device(bench: Workbench) -> None:
    """Each of all devices has its own scope, and scopes nest to any depth."""
    devices = bench.several(3)
    for device in devices:
        with device:
            bench.oracle.check_device(unidev.zeros(3), device, f"inside `with {device}`")
            bench.oracle.check_device(unidev.array([1.0]), device, f"inside `with {device}`")
    _descend(bench, 0)
    bench.oracle.check_device(unidev.zeros(3), bench.cpu, "after all blocks")


def _descend(bench: Workbench, depth: int) -> None:
    devices = bench.devices
    if depth == len(devices):
        return
    with devices[depth] as device:
        bench.oracle.check_device(unidev.zeros(3), device, f"at depth {depth}")
        _descend(bench, depth + 1)
        bench.oracle.check_device(unidev.zeros(3), device, f"back at depth {depth}")
