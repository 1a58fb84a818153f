"""The current device and stream of each thread are the user's. PYTEST_DONT_REWRITE."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unidev_conformance.kit.current import check_stays
from unidev_conformance.kit.verbs import verbs
from unidev_conformance.running.catalog import check

if TYPE_CHECKING:
    from unidev.device import Device
    from unidev_conformance.kit.workbench import Workbench


@check(required=True, needs=("probe.current",), over="gpus")
def test_device_and_stream_stay(bench: Workbench, device: Device) -> None:
    """No verb, on whatever devices, changes which device and stream are the current ones."""
    calls = (
        (f"{name}, {source} to {target}", verb)
        for source, target in bench.ring()
        for name, verb in verbs(bench, source, target).items()
    )
    check_stays(bench, device, calls)
