"""How much memory ``place`` takes, while it runs and afterwards. PYTEST_DONT_REWRITE."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import unidev
from unidev import nn
from unidev_conformance.kit.counting import TOLERANCE_BYTES
from unidev_conformance.kit.models.layered import made_on
from unidev_conformance.kit.spying import Calls
from unidev_conformance.running.catalog import check

if TYPE_CHECKING:
    from unidev.device import Device
    from unidev_conformance.kit.counting import Counter
    from unidev_conformance.kit.workbench import Workbench

_NEEDS = ("layers", "models", "probe.allocated_bytes")
_SIDE = 1024


def _net() -> Any:
    return nn.sequential(
        nn.dense(_SIDE, _SIDE, bias=False), nn.relu(), nn.dense(_SIDE, _SIDE, bias=False)
    )


@check(required=True, needs=_NEEDS, over="kinds_of_ways")
def test_old_memory_is_released(bench: Workbench, source: Device, target: Device) -> None:
    """Moved there and back, a model takes as much memory as before."""
    net = made_on(source, _net)

    def there_and_back() -> None:
        unidev.place(net, target)
        unidev.place(net, source)

    where = f"{source} to {target} and back"
    for device in dict.fromkeys((source, target)):
        bench.check_leaves_nothing(there_and_back, device=device, where=where)


@check(required=True, needs=_NEEDS, over="kinds_of_moves")
def test_all_has_arrived_first(bench: Workbench, source: Device, target: Device) -> None:
    """Before the first part is exchanged, all copies are on the destination, and nothing more."""
    net, counter = made_on(source, _net), bench.counter(target)
    counter.check(
        partial(_arrived, bench, counter, net, (source, target)),
        _nbytes(bench, net), TOLERANCE_BYTES,
        f"{source} to {target}, before the first part is exchanged",
    )  # fmt: skip


def _nbytes(bench: Workbench, net: Any) -> int:
    """The size of all its tensors: some frameworks allocate gradients from the beginning."""
    tensors = bench.backend.models.tensors(net).values()
    found = sum(len(bench.probe.read(x)) for x in tensors)
    assert found >= 2 * _SIDE * _SIDE * 4, f"two layers of {_SIDE} by {_SIDE} have {found} bytes"
    return found


def _arrived(bench: Workbench, counter: Counter, net: Any, way: tuple[Device, Device]) -> int:
    source, target = way
    unidev.place(net, source)
    seen = [counter.now()]

    def look(count: int) -> None:
        if count == 1:
            seen.append(counter.now())

    with Calls(bench.backend.models, "swap", look):
        unidev.place(net, target)
    assert len(seen) == 2, f"{source} to {target}: `swap` was not called"
    return seen[1] - seen[0]
