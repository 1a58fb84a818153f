"""Models that move between the host and a GPU while they train. PYTEST_DONT_REWRITE."""

from __future__ import annotations

from typing import TYPE_CHECKING

import unidev
from unidev_conformance.running.catalog import check

if TYPE_CHECKING:
    from collections.abc import Callable

    from unidev.contract.hardware_probe import Training
    from unidev.device import Device
    from unidev_conformance.kit.workbench import Workbench

_STEPS = 4


@check(required=True, needs=("models",), over="real_gpus")
def test_while_it_trains(bench: Workbench, gpu: Device) -> None:
    """A model that moves with its optimizer trains on like a twin that stays on the CPU."""
    for name, make in bench.hardware_probe().trainings().items():
        _check_moves(bench, f"{name} on {gpu}", make, gpu)


def _check_moves(
    bench: Workbench, where: str, make: Callable[[bool], Training], gpu: Device
) -> None:
    moved, twin = make(False), make(True)
    cpu, losses, expected = bench.cpu, [], []
    for device in (gpu,) if moved.is_for_gpus_alone else (cpu, gpu, cpu):
        before = list(moved.parameters())
        unidev.place(moved.model, device, optimizer=moved.optimizer)
        assert moved.is_tied(), f"{where}: placing it on {device} has lost the tie"
        is_kept = all(a is b for a, b in zip(before, moved.parameters(), strict=True))
        assert is_kept, f"{where}: placing it on {device} replaced parameters"
        data = unidev.as_in_device(moved.data, device)
        losses += [moved.step(data) for _ in range(_STEPS)]
        expected += [twin.step(twin.data) for _ in range(_STEPS)]
        state = moved.state()
        assert state, f"{where}: the optimizer keeps no state on {device}"
        for x in (*before, *state):
            bench.oracle.check_device(x, device, f"{where}: a parameter or its state")
    far = [
        number
        for number, (a, b) in enumerate(zip(losses, expected, strict=True))
        if not abs(a - b) <= moved.closeness * max(abs(b), 1e-6)
    ]
    assert not far, f"{where}: losses {losses} instead of {expected}, first in step {far[:1]}"
    bench.evidence.add("losses", f"{where}: {losses}, of the twin {expected}")
