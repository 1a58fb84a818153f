"""Lack of memory: one error in every verb, and the device works on. PYTEST_DONT_REWRITE."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unidev_conformance.kit.processes.fresh import check_fresh
from unidev_conformance.kit.processes.lacking import Trial, check_card
from unidev_conformance.running.catalog import check

if TYPE_CHECKING:
    from unidev_conformance.kit.workbench import Workbench


@check(required=True)
def test_every_verb(bench: Workbench) -> None:
    """A verb that finds no memory raises OutOfDeviceMemoryError; after it, the device works."""
    *others, last = bench.devices
    if last.kind == "gpu" and not last.is_simulated:
        check_fresh(bench, check_card, last)  # allocators keep what they once had
        return
    trial = Trial(bench)
    trial.check_verbs(last)
    for device in others:
        trial.check_copies(device)
