"""Trees as models, where users replace what they train. Optional. PYTEST_DONT_REWRITE."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import unidev
from unidev_conformance.kit.inputs.containers import Frozen, Point
from unidev_conformance.kit.models.differentiating import check_gradient, plus, times, total, wholes
from unidev_conformance.kit.models.stored_models import a_path
from unidev_conformance.running.catalog import check

if TYPE_CHECKING:
    from unidev.device import Device
    from unidev_conformance.kit.workbench import Workbench

    Array = np.ndarray[Any, Any]

_FIRST, _SECOND = _VALUES = wholes(2, 3), wholes(4, 1, start=2)


def _tree(bench: Workbench, device: Device, values: tuple[Array, Array] = _VALUES) -> Any:
    """A frozen dataclass, a tuple and a named tuple in a dict; its first tensor is in two places.

    Ends the check where the framework's models are no trees.
    """
    if not bench.backend.models.rebuilds_containers:
        bench.not_applicable("in this framework no new models are made of containers of tensors")
    x, y = (bench.make(each, device) for each in values)
    return {"layer": Frozen(x, "first"), "rest": (y, [Point(3, x)])}


def _tensors(tree: Any, where: str) -> tuple[Any, Any]:
    """Both tensors of a tree of that structure."""
    layer, rest = tree["layer"], tree["rest"]
    kinds = type(tree), type(layer), type(rest), type(rest[1]), type(rest[1][0])
    assert kinds == (dict, Frozen, tuple, list, Point), f"{where}: the containers are {kinds}"
    assert (layer.name, rest[1][0].x) == ("first", 3), f"{where}: what is not a tensor has changed"
    assert rest[1][0].y is layer.data, f"{where}: a tensor in two places became two"
    return layer.data, rest[0]


def _check(
    bench: Workbench,
    tree: Any,
    device: Device,
    where: str,
    *,
    values: tuple[Array, Array] = _VALUES,
) -> None:
    for x, expected in zip(_tensors(tree, where), values, strict=True):
        bench.oracle.check_device(x, device, where)
        bench.oracle.check_bytes(x, expected.tobytes(), where)


@check(needs=("models",), over="all_pairs")
def test_placed_anew(bench: Workbench, source: Device, target: Device) -> None:
    """``place`` returns a new tree, all of it on the device, and leaves the old one where it is."""
    tree, where = _tree(bench, source), f"{source} to {target}"
    before = _tensors(tree, where)
    placed = bench.works(unidev.place, tree, target)
    _check(bench, placed, target, where)
    if source is target:
        assert placed is tree, f"{where}: it was there, and was made anew"
    else:
        assert placed is not tree, f"{where}: the tree itself was changed"
        for old, new in zip(before, _tensors(placed, where), strict=True):
            bench.oracle.check_disjoint(old, new, where)
    _check(bench, tree, source, f"{where}, the old tree")
    if bench.has("probe.unbound"):
        free = bench.works(unidev.place, {"x": bench.probe.unbound(source)}, target)["x"]
        for other in bench.devices:
            with other:
                bench.oracle.check_device(free + free, target, f"{where}, then added in {other}")
    names = list(bench.works(unidev.parameters, placed))
    assert names == ["layer.data", "rest.0"], f"{where}: the names are {names}"


@check(needs=("models",), over="all_pairs")
def test_optimizer_state_placed(bench: Workbench, source: Device, target: Device) -> None:
    """An optimizer's state, a tree itself, is placed along, and shares tensors as before."""
    tree, where = _tree(bench, source), f"{source} to {target}, with a state"
    state = {"count": 3, "moments": Point(bench.make(_SECOND, source), tree["layer"].data)}
    placed = bench.works(unidev.place, tree, target, optimizer=state)
    assert isinstance(placed, tuple), f"{where}: a {type(placed).__name__}, not a pair"
    _check(bench, placed[0], target, where)
    moments = placed[1]["moments"]
    assert (placed[1]["count"], type(moments)) == (3, Point), f"{where}: the state has changed"
    assert moments.y is placed[0]["layer"].data, f"{where}: what they shared became two"
    bench.oracle.check_device(moments.x, target, where)
    bench.oracle.check_bytes(moments.x, _SECOND.tobytes(), where)


@check(needs=("models",), over="ring")
def test_loaded_anew(bench: Workbench, source: Device, target: Device) -> None:
    """``load_parameters`` returns a new tree with the file's values, and leaves the old one."""
    tree, where = _tree(bench, source), f"saved on {source}, loaded on {target}"
    blank = _FIRST * 0, _SECOND * 0
    other = _tree(bench, source, blank)
    with a_path() as path:
        bench.works(unidev.save_parameters, tree, path)
        there = bench.works(unidev.load_parameters, other, path, device=target)
        here = bench.works(unidev.load_parameters, other, path)
    _check(bench, there, target, where)
    _check(bench, here, source, f"{where}, where the old tree is")
    _check(bench, other, source, f"{where}, the old tree", values=blank)


@check(needs=("models",), over="devices")
def test_numbers_kept(bench: Workbench, device: Device) -> None:
    """A checkpoint of a container keeps the numbers in it, of Python's types and of NumPy's.

    Also those that were tensors when the model was made, and the other way round.
    """
    if not (bench.backend.models.rebuilds_containers or bench.backend.models.takes_containers):
        bench.not_applicable("in this framework containers of tensors are no models")
    made = {"count": 0, "rate": 1.0, "on": False, "seed": 0, "root": 1j, "scale": np.float32(1)}
    kept = {"count": 7, "rate": 0.1, "on": True, "seed": 2**100, "root": -2j}
    kept["scale"] = np.float32(0.3)
    made["whole"], kept["whole"], made["narrow"], kept["narrow"] = 1, 1.0, 1, np.int32(1)
    pair, step, zero = (bench.make(np.array(x, "int32"), device) for x in ([1, 2], 5, 0))

    def model(numbers: dict[str, Any], *more: Any) -> Any:
        return {"w": pair, "state": [numbers, Point(*more)]}

    with a_path() as path:
        bench.works(unidev.save_parameters, model(kept, 3, step), path)
        found = bench.works(unidev.load_parameters, model(made, zero, 0), path)
        described = bench.works(unidev.load_tensors, path, device)
    numbers, point = found["state"]
    for name, x in kept.items():
        for y, where in ((numbers[name], "loaded"), (described[f"state.0.{name}"], "without it")):
            assert type(x) is type(y), f"{where}: {name} is a {type(y).__name__}"
            assert x == y, f"{where}: {name} is {y}, not {x}"
    bench.oracle.check_bytes(point.x, np.int32(3).tobytes(), "a number, loaded as a tensor")
    assert type(point.y) is int, f"a tensor, loaded as a number, is a {type(point.y).__name__}"
    assert point.y == 5, f"a tensor of 5, loaded as a number, is {point.y}"


@check(needs=("models", "autograd"), over="devices")
def test_trained_anew(bench: Workbench, device: Device) -> None:
    """Gradients come in a tree of the same structure, and ``sgd`` returns a new one of it."""
    tree, where = _tree(bench, device), f"on {device}"

    def loss_of(tree: Any, scale: Any) -> Any:
        x, y = tree["layer"].data, tree["rest"][0]
        return plus(total(times(x, x)), total(times(y, scale)))

    scale = bench.make(_SECOND, device)
    _, gradients = bench.works(unidev.value_and_grad(loss_of), tree, scale)
    found = _tensors(gradients, f"{where}, the gradients")
    for gradient, expected in zip(found, (2 * _FIRST, _SECOND), strict=True):
        check_gradient(bench, gradient, expected, device, where)
    new = bench.works(unidev.sgd, tree, gradients, lr=0.25)
    values = _FIRST / 2, _SECOND * 3 / 4
    _check(bench, new, device, f"{where}, after a step", values=values)
    if not bench.has("probe.write"):  # no tensor may have been written to
        assert new is not tree, f"{where}: the step returned the old tree"
        _check(bench, tree, device, f"{where}, the old tree after a step")
