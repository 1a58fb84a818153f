"""Tensors that may not be packed, deleted or sparse ones, given to verbs over several devices.

PYTEST_DONT_REWRITE
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import unidev
from unidev.conformance.running.catalog import check

if TYPE_CHECKING:
    from unidev.conformance.kit.workbench import Workbench
    from unidev.contract.device import Device


@check(required=True, needs=("collectives", "probe.deleted"), over="devices")
def test_deleted(bench: Workbench, device: Device) -> None:
    """No verb packs, splits or sums a tensor whose memory was deleted."""
    tree = {"whole": bench.matrix(device), "gone": bench.probe.deleted(device)}
    targets = bench.several(2)
    for function in (unidev.replicate, unidev.broadcast, unidev.split_batch):
        bench.expect(unidev.DeletedTensorError, function, tree, targets)
    bench.expect(unidev.DeletedTensorError, unidev.gather, [tree, tree], device)
    bench.expect(unidev.DeletedTensorError, unidev.all_reduce, [tree, tree])


@check(required=True, needs=("collectives",))
def test_special_tensors(bench: Workbench) -> None:
    """Sparse tensors and the like arrive as they were, or are refused by an error of unidev's."""
    targets, refused = bench.several(2), []
    for device in bench.devices:
        for name, x in bench.probe.specials(device).items():
            content = bench.probe.read(x)
            for function, arguments in (
                (unidev.broadcast, (x, targets)),
                (unidev.split_batch, (x, targets)),
                (unidev.gather, ([x, x], device)),
                (unidev.all_reduce, ([x, x],)),
            ):
                where = f"{function.__name__} of {name} on {device}"
                try:
                    made = function(*arguments)
                except unidev.UnidevError:
                    refused.append(where)
                    continue
                if function is unidev.broadcast:
                    for copied in made:
                        bench.oracle.check_bytes(copied, content, where)
    bench.evidence.add("refused", refused)
