"""Deleted and sparse tensors, given to verbs over several devices. PYTEST_DONT_REWRITE."""

from __future__ import annotations

from typing import TYPE_CHECKING
from unittest import mock

import unidev
from unidev.contract.dtypes import portable_name
from unidev.parallel.devices import packing
from unidev_conformance.kit.inputs import samples
from unidev_conformance.running.catalog import check

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unidev.device import Device
    from unidev_conformance.kit.workbench import Workbench


@check(required=True, needs=("collectives", "probe.deleted"), over="devices")
def test_deleted(bench: Workbench, device: Device) -> None:
    """No verb packs, splits or sums a tensor whose memory was deleted."""
    tree = {"whole": bench.matrix(device), "gone": bench.probe.deleted(device)}
    targets = bench.several(2)
    for function in (unidev.replicate, unidev.broadcast, unidev.split_batch):
        bench.expect(unidev.DeletedTensorError, function, tree, targets)
    bench.expect(unidev.DeletedTensorError, unidev.gather, [tree, tree], device)
    bench.expect(unidev.DeletedTensorError, unidev.all_reduce, [tree, tree])


_SAME_SIZES: tuple[Sequence[tuple[int, ...]], ...] = (
    ((2, 3), (4,)), ((3, 2), (2, 2)), ((6,), (1, 4)), ((1, 6, 1), (4, 1)),
)  # fmt: skip


@check(required=True, needs=("collectives",))
def test_shapes(bench: Workbench) -> None:
    """Tensors that were packed have their own shapes and dtypes, not those of others as large.

    In the end, the first fills its bucket.
    """
    devices = bench.several(2)
    dtypes = [name for name in ("float32", "int32", "int64") if name in bench.dtypes(*devices)]
    for number, shapes in enumerate(_SAME_SIZES * 3):
        for dtype in dtypes:
            arrays = [samples.counting(shape, dtype) + number for shape in shapes]
            limit = packing.BUCKET_BYTES if number < 2 * len(_SAME_SIZES) else arrays[0].nbytes
            trees = [[bench.make(each, device) for each in arrays] for device in devices]
            with mock.patch.object(packing, "BUCKET_BYTES", limit):
                found_by = {
                    "broadcast": (unidev.broadcast(trees[0], devices), 1),
                    "all_reduce": (unidev.all_reduce(trees), len(devices)),
                }
            for name, (made, factor) in found_by.items():
                for tree, device in zip(made, devices, strict=True):
                    for x, array in zip(tree, arrays, strict=True):
                        where = f"{name} of {dtype} {shapes}, on {device}"
                        found = tuple(map(int, x.shape))
                        assert found == array.shape, f"{where}: shape {found}, not {array.shape}"
                        expected = (array * factor).astype(dtype)
                        bench.oracle.check_bytes(x, expected.tobytes(), where)


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
                except unidev.UnidevError as error:
                    if type(error) is unidev.FrameworkError and portable_name(
                        x.dtype, bench.backend
                    ):
                        raise AssertionError(f"{where}: the framework's error") from error
                    refused.append(where)
                    continue
                if function is unidev.split_batch:
                    bench.oracle.check_bytes(unidev.gather(made, device), content, where)
                if function is unidev.broadcast:
                    for copied in made:
                        bench.oracle.check_bytes(copied, content, where)
    bench.evidence.add("refused", refused)
