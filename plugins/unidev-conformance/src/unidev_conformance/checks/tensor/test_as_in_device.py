"""``as_in_device``: the same object if it is there, otherwise a true copy. PYTEST_DONT_REWRITE."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import unidev
from unidev_conformance.kit.inputs import samples
from unidev_conformance.kit.inputs.containers import Frozen, Point
from unidev_conformance.running.catalog import check

if TYPE_CHECKING:
    from unidev.device import Device
    from unidev_conformance.kit.workbench import Workbench


def _spellings(device: Device) -> list[Any]:
    found = [device, str(device), device.native, device.native_name]
    found += [device.index] * (device.kind == "gpu")
    return [*found, device.kind] if device.index == 0 else found


@check(required=True, over="devices")
def test_same_object_when_there(bench: Workbench, device: Device) -> None:
    """A tensor already on the device is returned itself, however the device is spelt."""
    x = bench.matrix(device)
    tensors = {
        "tensor": x, "zero-size": unidev.zeros((0, 3), device=device),
        **bench.probe.views(x), **bench.probe.specials(device),
    }  # fmt: skip
    for name, tensor in tensors.items():
        for spelling in _spellings(device):
            found = unidev.as_in_device(tensor, spelling)
            assert found is tensor, f"{name} on {device}, sent to {spelling!r}: another object"
    bench.evidence.add("the same object", f"{device}: {', '.join(tensors)}")


@check(required=True, needs=("probe.allocated_bytes",), over="devices")
def test_nothing_allocated(bench: Workbench, device: Device) -> None:
    """A tensor already on the device takes no new memory."""
    spellings = _spellings(device)

    def all_spellings(x: Any) -> list[Any]:
        return [unidev.as_in_device(x, spelling) for spelling in spellings]

    bench.check_grows(
        all_spellings,
        partial(bench.make, samples.big(), device),
        device=device,
        nbytes=0,
        where=f"as_in_device on {device}",
    )


@check(required=True, over="pairs")
def test_disjoint_copy_when_not_there(bench: Workbench, source: Device, target: Device) -> None:
    """A tensor on another device is copied: the result is on the device and shares no memory."""
    for case in bench.drawn(source, target, is_large=False):
        x, where = case.make_laid_out(bench.probe, source), f"{case}, {source} to {target}"
        with case.entered():
            y = unidev.as_in_device(x, target)
        # First: a tensor that was not moved is not a copy either, but this message is clearer.
        bench.oracle.check_device(y, target, where)
        bench.oracle.check_copy(x, y, target, where)
        bench.oracle.check_device(x, source, f"the source of {where}")


@check(required=True, over="devices")
def test_differs_from_copy_to(bench: Workbench, device: Device) -> None:
    """On one device the two verbs differ: one returns the tensor, the other new memory."""
    x = bench.matrix(device)
    same, copied = unidev.as_in_device(x, device), unidev.copy_to(x, device)
    assert same is x, f"{device}: as_in_device returned another object"
    assert copied is not x, f"{device}: copy_to returned the source itself"
    bench.oracle.check_copy(x, copied, device, f"copy_to on {device}")


@check(over="devices")
def test_unmoved_tree_is_itself(bench: Workbench, device: Device) -> None:
    """A container of which no tensor moves is returned itself, and so are the containers in it."""
    x, y = bench.matrix(device), bench.matrix(device)
    trees = (
        {"x": x, "n": [y, (3, "text")]}, [x, y], (x, {"y": y}), Point(x, y), Frozen(x, "f"),
        [x, Point(1, Frozen(y, None))],
    )  # fmt: skip
    for tree in trees:
        for spelling in _spellings(device):
            found = unidev.as_in_device(tree, spelling)
            name = type(tree).__name__
            assert found is tree, f"{name} on {device}, sent to {spelling!r}: another container"
        same = unidev.map_tensors(lambda x: x, tree) is tree
        assert same, f"{name} on {device}, each tensor mapped to itself: another container"


@check(over="all_pairs")
def test_leaves_there_stay_themselves(bench: Workbench, source: Device, target: Device) -> None:
    """In a container, tensors already on the device stay the same objects; only the others move."""
    moving, there, other = bench.matrix(source), bench.matrix(target), object()
    tree = {"a": moving, "b": [there, (there, other)], "c": Point(there, moving)}
    found = unidev.as_in_device(tree, target)
    where = f"{source} to {target}"
    stayed = [found["b"][0], found["b"][1][0], found["c"].x]
    assert all(leaf is there for leaf in stayed), f"{where}: a leaf already there was replaced"
    assert found["b"][1][1] is other, f"{where}: a non-tensor leaf was replaced"
    assert found["a"] is found["c"].y, f"{where}: one leaf became two"
    if source is target:
        assert found["a"] is moving, f"{where}: a leaf already there was replaced"
    else:
        bench.oracle.check_copy(moving, found["a"], target, where)
