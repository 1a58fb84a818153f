"""Whether calls leave the current device and stream of the thread as they were."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from unidev.contract.backend import Unsupported

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager

    from unidev.conformance.kit.workbench import Workbench
    from unidev.contract.device import Device


def check_stays(
    bench: Workbench, device: Device, calls: Iterable[tuple[str, Callable[[], object]]]
) -> None:
    """No call changes what is current, which is a new stream of ``device``, if it has any."""
    outside = dict(bench.probe.current())
    with _standing_in(bench, device):
        inside = dict(bench.probe.current())
        for name, call in calls:
            bench.works(call)
            found = dict(bench.probe.current())
            assert found == inside, f"{name}, while {inside} were current: now {found}"
    assert dict(bench.probe.current()) == outside, f"{device}: not as before the side stream"
    bench.evidence.add("current", {name: str(value) for name, value in inside.items()})


def _standing_in(bench: Workbench, device: Device) -> AbstractContextManager[Any]:
    if isinstance(bench.probe.side_stream, Unsupported):
        return nullcontext()
    return bench.probe.side_stream(device)
