"""The hardware probe, for the checks of real GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unidev.conformance.judging.outcomes import NotApplicableError

if TYPE_CHECKING:
    from unidev.conformance.kit.workbench import Workbench
    from unidev.contract.hardware_probe import HardwareProbe


def hardware_probe(bench: Workbench) -> HardwareProbe:
    """The probe's part for real GPUs.

    Raises:
        NotApplicableError: there is none.
    """
    found = bench.probe.hardware
    if found is None:
        raise NotApplicableError("the backend's probe has no part for real GPUs")
    return found
