"""``replicate`` and ``broadcast`` of tensors. PYTEST_DONT_REWRITE."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import unidev
from unidev_conformance.kit.inputs import samples
from unidev_conformance.running.catalog import check

if TYPE_CHECKING:
    from unidev_conformance.kit.workbench import Workbench

_NEEDS = ("collectives",)


@check(required=True, needs=_NEEDS)
def test_copies(bench: Workbench) -> None:
    """Each device gets a true copy, one that is listed twice gets two; ties are kept."""
    devices = bench.several(3)
    for function in (unidev.replicate, unidev.broadcast):
        for source in devices:
            listed = [*devices, source]
            x, y = bench.matrix(source), bench.of_dtype("int32", source)
            tree = {"x": x, "list": [y, x, None]}
            copies = bench.works(function, tree, listed)
            where = f"{function.__name__} from {source}"
            for copied, device in zip(copies, listed, strict=True):
                bench.oracle.check_copy(x, copied["x"], device, f"{where} to {device}")
                bench.oracle.check_copy(y, copied["list"][0], device, f"{where} to {device}")
                assert copied["list"][1] is copied["x"], f"{where}: a tie has come apart"
                assert copied["list"][2] is None, f"{where}: None has become something else"
            for one, other in combinations(copies, 2):
                for a, b in ((one["x"], other["x"]), (one["x"], other["list"][0])):
                    bench.oracle.check_disjoint(a, b, f"{where}, two copies")
            if bench.has("probe.write"):
                bench.oracle.check_writes_apart(x, copies[-1]["x"], where)
                bench.oracle.check_writes_apart(copies[0]["x"], copies[1]["x"], where)


@check(required=True, needs=_NEEDS)
def test_dtypes(bench: Workbench) -> None:
    """Tensors of every dtype, size and layout arrive bit for bit when they travel packed."""
    devices = bench.several(3)
    drawn = list(bench.drawn(*devices[:3]))
    xs = [
        # Not every framework can transpose booleans.
        (each.make if each.dtype == "bool" else each.make_laid_out)(bench.probe, devices[0])
        for each in drawn
    ]
    for copied, device in zip(unidev.broadcast(xs, devices[1:3]), devices[1:3], strict=True):
        for each, x, y in zip(drawn, xs, copied, strict=True):
            bench.oracle.check_copy(x, y, device, f"{each}, packed with others, to {device}")


@check(required=True, needs=(*_NEEDS, "tracer"))
def test_transfers(bench: Workbench) -> None:
    """A broadcast of many tensors makes one copy to each other device."""
    devices = bench.several(3)
    tree = [bench.make(samples.counting((3, number + 1)), devices[0]) for number in range(20)]
    with unidev.trace_transfers() as trace:
        unidev.broadcast(tree, devices)
    found = [transfer for transfer in trace.transfers if transfer.operation == "broadcast"]
    assert len(found) == len(devices) - 1, f"{len(found)} copies to {len(devices) - 1} devices"
