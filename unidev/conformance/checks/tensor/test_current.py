"""The current device and stream, which frameworks keep for each thread, are the user's."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

from unidev.conformance.kit.verbs import verbs
from unidev.conformance.running.catalog import check
from unidev.contract.backend import Unsupported

if TYPE_CHECKING:
    from unidev.conformance.kit.workbench import Workbench
    from unidev.contract.device import Device


@check(required=True, needs=("probe.current",), over="gpus")
def test_device_and_stream_stay(bench: Workbench, device: Device) -> None:
    """No verb, on whatever devices, changes which device and stream are the current ones."""
    has_streams = not isinstance(bench.probe.side_stream, Unsupported)
    standing = bench.probe.side_stream(device) if has_streams else nullcontext()
    outside = dict(bench.probe.current())
    with standing:
        inside = dict(bench.probe.current())
        assert inside != outside or not has_streams, (
            f"{device}: the probe's side stream changes nothing that is current: {outside}"
        )
        for source, target in bench.ring():
            for name, verb in verbs(bench, source, target).items():
                bench.works(verb)
                found = dict(bench.probe.current())
                assert found == inside, (
                    f"{name}, {source} to {target}, while {inside} were current: now {found}"
                )
    assert dict(bench.probe.current()) == outside, f"{device}: not as before the side stream"
    bench.evidence.add("current", {name: str(value) for name, value in inside.items()})
