"""Nested containers. PYTEST_DONT_REWRITE."""

from __future__ import annotations

import operator
from collections import OrderedDict, defaultdict
from typing import TYPE_CHECKING, Any

from hypothesis import given

import unidev
from unidev_conformance.kit.inputs import strategies
from unidev_conformance.kit.inputs.containers import (
    Batch,
    ChangesSource,
    Custom,
    ForgetsOne,
    Frozen,
    Longer,
    Output,
    Point,
    Rows,
    SelfMoving,
    Subclassed,
    kinds_with,
    objects_with,
    objects_without,
)
from unidev_conformance.kit.inputs.strategies import Leaf, a_handful
from unidev_conformance.running.catalog import check

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from unidev.device import Device
    from unidev_conformance.kit.workbench import Workbench


@check(required=True)
def test_dict_list_tuple(bench: Workbench) -> None:
    """Nested dicts, lists and tuples keep their types, and each of their tensors is copied."""
    for source, target in bench.all_pairs():
        x, y = bench.matrix(source), bench.matrix(source)
        tree = {"a": [x, (y, {"b": bench.matrix(source)})], "n": (x, [3, None])}
        _check_copied(bench, tree, unidev.copy_to(tree, target), target, f"{source} to {target}")
    for source, target in bench.ring():
        _check_any_nesting(bench, source, target)
    source, target = bench.devices[0], bench.devices[-1]
    _check_tree(bench, strategies.large(bench.dtypes(source, target)), source, target)


def _check_any_nesting(bench: Workbench, source: Device, target: Device) -> None:
    kinds = bench.dtypes(source, target), bench.layouts

    @a_handful
    @given(strategies.generators)
    def check_nesting(rng: np.random.Generator) -> None:
        _check_tree(bench, strategies.tree(rng, *kinds, most=40), source, target)

    check_nesting()
    _check_tree(bench, strategies.all_tied(*kinds, count=20), source, target)


def _check_tree(bench: Workbench, shape: Any, source: Device, target: Device) -> None:
    made: dict[Leaf, Any] = {}
    tree = _filled(bench, shape, source, made)
    where = f"{shape}, {source} to {target}"
    copied = unidev.copy_to(tree, target)
    _check_copied(bench, tree, copied, target, where)
    moved = unidev.as_in_device(tree, target)
    if source is target or not made:
        assert moved is tree, f"as_in_device, {where}: another container"
    else:
        _check_copied(bench, tree, moved, target, f"as_in_device, {where}")
    for old, new in ((tree, copied), (tree, moved)):
        pairs = list(zip(_flat(bench, old), _flat(bench, new), strict=True))
        ties = len({id(x) for x, _ in pairs}), len({id(y) for _, y in pairs})
        assert ties[0] == ties[1], f"{where}: {ties[0]} different tensors became {ties[1]}"


def _filled(bench: Workbench, shape: Any, device: Device, made: dict[Leaf, Any]) -> Any:
    if isinstance(shape, Leaf):
        if shape not in made:
            made[shape] = shape.drawn().make_laid_out(bench.probe, device)
        return made[shape]
    if isinstance(shape, dict):
        return {key: _filled(bench, value, device, made) for key, value in shape.items()}
    if isinstance(shape, (list, tuple)):
        return type(shape)(_filled(bench, value, device, made) for value in shape)
    if isinstance(shape, (Custom, Frozen)):
        inner, rest = vars(shape).values()
        return type(shape)(_filled(bench, inner, device, made), rest)
    return shape


def _flat(bench: Workbench, tree: Any) -> list[Any]:
    if isinstance(tree, bench.backend.tensor_types):
        return [tree]
    if isinstance(tree, dict):
        tree = list(tree.values())
    if isinstance(tree, (Custom, Frozen)):
        tree = list(vars(tree).values())
    if isinstance(tree, (list, tuple)):
        return [x for each in tree for x in _flat(bench, each)]
    return []


def _check_copied(bench: Workbench, old: Any, new: Any, device: Device, where: str) -> None:
    if isinstance(old, bench.backend.tensor_types):
        bench.oracle.check_copy(old, new, device, where)
        return
    assert type(new) is type(old), f"{where}: {type(old).__name__} became {type(new).__name__}"
    if isinstance(old, dict):
        assert list(new) == list(old), f"{where}: the keys {list(old)} became {list(new)}"
        for key in old:
            _check_copied(bench, old[key], new[key], device, f"{where}: [{key!r}]")
    elif isinstance(old, (list, tuple)):
        assert len(new) == len(old), f"{where}: {len(old)} items became {len(new)}"
        for index, pair in enumerate(zip(old, new, strict=True)):
            _check_copied(bench, *pair, device, f"{where}: [{index}]")
    elif isinstance(old, (Custom, Frozen)):
        _check_copied(bench, vars(old), vars(new), device, f"{where}: a {type(old).__name__}")
    else:
        assert new is old, f"{where}: {old!r} became {new!r}"


@check(required=True, over="all_pairs")
def test_named_and_registered_containers(bench: Workbench, source: Device, target: Device) -> None:
    """Namedtuples, dataclasses, defaultdict, registered types, the framework's own are kept."""
    x, where = bench.matrix(source), f"{source} to {target}"
    if (source, target) in bench.ring():
        for name, (tree, tensors_of) in bench.probe.containers(source).items():
            _check_own(bench, tree, tensors_of, target, f"{name}, {where}")
    for tree, tensor_of in _named(x):
        name = type(tree).__name__
        copied = unidev.copy_to([tree], target)[0]
        assert type(copied) is type(tree), f"{where}: {name} became {type(copied).__name__}"
        bench.oracle.check_copy(x, tensor_of(copied), target, f"{name}, {where}")
        kept = getattr(copied, "seen", None)
        assert kept == getattr(tree, "seen", None), f"{where}: {name}.seen became {kept}"
        assert tensor_of(tree) is x, f"{where}: the original {name} was changed"
        at_root = unidev.copy_to(tree, target)
        assert type(at_root) is type(tree), f"{where}: at the root, {name} changed its type"
        bench.oracle.check_copy(x, tensor_of(at_root), target, f"{name} at the root, {where}")
    for tree in (defaultdict(list, x=x), Lists(list, x=x)):
        copied_default = unidev.copy_to(tree, target)
        assert copied_default["new"] == [], f"{where}: {type(tree).__name__} has lost its default"
    ordered = unidev.copy_to(OrderedDict(b=x, a=x), target)
    assert list(ordered) == ["b", "a"], f"{where}: the OrderedDict has lost its order"
    of_attributes: list[Any] = [OrderedDict(b=x), Subclassed(x, 3)]
    for tree in of_attributes:
        tree.note = "kept"
        copied = unidev.copy_to({"in": tree}, target)["in"]
        assert getattr(copied, "note", None) == "kept", f"{where}: {type(tree).__name__}.note"
        tree.held = x
        copied = unidev.copy_to(tree, target)
        bench.oracle.check_copy(x, copied.held, target, f"{type(tree).__name__}.held, {where}")


def _check_own(bench: Workbench, tree: Any, tensors_of: Any, target: Device, where: str) -> None:
    """Each tensor in a container of the framework's own is a copy, or there already."""
    before, source = tensors_of(tree), unidev.device_of(tree)
    bench.oracle.check_device(before[0], source, f"{where}, the source")
    moved = {
        "copy_to": unidev.copy_to(tree, target),
        "copy_to of a list": unidev.copy_to([tree], target)[0],
        "as_in_device": unidev.as_in_device(tree, target),
    }
    if source is target:
        assert moved.pop("as_in_device") is tree, f"{where}: it was there, and is new"
    for verb, made in moved.items():
        said, after = f"{where}, by {verb}", tensors_of(made)
        assert type(made) is type(tree), f"{said}: it became {type(made).__name__}"
        assert len(after) == len(before), f"{said}: {len(before)} tensors became {len(after)}"
        for number, (x, y) in enumerate(zip(before, after, strict=True)):
            bench.oracle.check_copy(x, y, target, f"{said}: tensor {number}")
        assert unidev.device_of(made) is target, f"{said}: on {unidev.device_of(made)}"
    again = tensors_of(tree)
    is_same = len(again) == len(before) and all(map(operator.is_, again, before))
    assert is_same, f"{where}: the source was changed"


class Lists(defaultdict[str, Any]):
    """A defaultdict that may have attributes."""


def _named(x: Any) -> list[tuple[Any, Callable[[Any], Any]]]:
    """Containers of a tensor, and how it is found in each."""
    seen = Batch(x, 3)
    seen.seen = 7  # a field that __init__ does not take
    return [
        (Point(x, 3), lambda tree: tree.x), (seen, lambda tree: tree.data),
        (Frozen(x, "f"), lambda tree: tree.data), (defaultdict(list, x=x), lambda tree: tree["x"]),
        (OrderedDict(b=x, a=1), lambda tree: tree["b"]),
        (Custom([x, 3], "note"), lambda tree: tree.parts[0]),
    ]  # fmt: skip


@check(required=True, over="all_pairs")
def test_shared_leaf_stays_shared(bench: Workbench, source: Device, target: Device) -> None:
    """A tensor that occurs several times becomes one tensor, and two equal ones stay two."""
    x, y = bench.matrix(source), bench.matrix(source)
    a, b = unidev.copy_to({"a": x, "b": [x, (y, x)]}, target).values()
    where = f"{source} to {target}"
    assert a is b[0], f"{where}: one tensor became two, ['a'] and ['b'][0]"
    assert a is b[1][1], f"{where}: one tensor became two, ['a'] and ['b'][1][1]"
    assert a is not b[1][0], f"{where}: two tensors became one"
    bench.oracle.check_disjoint(a, b[1][0], f"{where}: two tensors that are equal")
    one, other = unidev.copy_to([x, bench.probe.same_memory(x)], target)
    bench.oracle.check_disjoint(one, other, f"{where}: two views of one memory")
    bench.oracle.check_copy(x, a, target, where)


@check(required=True, over="all_pairs")
def test_non_tensors_untouched(bench: Workbench, source: Device, target: Device) -> None:
    """Non-tensor leaves pass through unchanged, as the same objects."""
    others = [None, 3, 2.5, True, 2 + 1j, "text", b"bytes", object(), len, range(3), 10**30]
    x = bench.matrix(source)
    for copied in (
        unidev.copy_to([x, *others], target)[1:],
        unidev.as_in_device([x, *others], target)[1:],
        unidev.copy_to(list(others), target),
    ):
        assert len(copied) == len(others), f"{source} to {target}: {copied}"
        for old, new in zip(others, copied, strict=True):
            assert new is old, f"{source} to {target}: {old!r} became {new!r}"


@check(required=True, over="all_pairs")
def test_objects_with_tensors_are_refused(bench: Workbench, source: Device, target: Device) -> None:
    """An object that holds a tensor is refused with its path: the tensor would stay behind."""
    x, y = bench.matrix(source), bench.matrix(source)
    for held, path in objects_with(y):
        batch = {"x": x, "odd": [held]}
        for call, *arguments in (
            (unidev.copy_to, batch, target), (unidev.as_in_device, batch, target),
            (unidev.device_of, batch), (unidev.check_same_device, batch),
        ):  # fmt: skip
            error = bench.expect(unidev.UnsupportedContainerError, call, *arguments)
            wanted = f"['odd'][0]{path}"
            assert wanted in str(error), f"{call.__name__}: no {wanted!r} in: {error}"


@check(required=True, over="all_pairs")
def test_objects_that_move_themselves(bench: Workbench, source: Device, target: Device) -> None:
    """An object's own ``to`` is called on a copy of the object, and what it did is looked at."""
    x, y, where = bench.matrix(source), bench.matrix(source), f"{source} to {target}"
    mine = SelfMoving(x, "rest")
    assert unidev.device_of([x, mine]) is source, f"{where}: not looked into"
    moved = unidev.as_in_device({"x": x, "m": mine}, target)["m"]
    assert mine.x is x, f"{where}: the source was changed"
    if source is target:
        assert moved is mine, f"{where}: it was there, and is new"
        error = bench.expect(unidev.UnsupportedContainerError, unidev.copy_to, [x, mine], target)
        assert "copied nothing" in str(error), f"{where}: {error}"
        return
    assert type(moved) is SelfMoving, f"{where}: it became {type(moved).__name__}"
    bench.oracle.check_copy(x, moved.x, target, where)
    for odd, said in ((ForgetsOne(x, y), "left .rest"), (ChangesSource([x]), "changed the object")):
        error = bench.expect(
            unidev.UnsupportedContainerError, unidev.as_in_device, [x, odd], target
        )
        assert said in str(error), f"{where}: {error}"


@check(required=True, over="all_pairs")
def test_objects_without_tensors_pass(bench: Workbench, source: Device, target: Device) -> None:
    """Paths, dates, locks, functions and other objects pass, and none of their code runs."""
    x = bench.matrix(source)
    others = [source, source.native, x.dtype, *objects_without(x)]
    tree = {"x": x, "others": others}
    for verb in (unidev.copy_to, unidev.as_in_device):
        moved = bench.works(verb, tree, target)
        for old, new in zip(others, moved["others"], strict=True):
            assert new is old, f"{source} to {target}: a {type(old).__name__} was replaced"
    there = bench.works(unidev.as_in_device, tree, source)
    assert there is tree, f"as_in_device copied a container on {source}"
    home = bench.works(unidev.device_of, tree)
    assert home is source, f"a container on {source} is on {home}"
    bench.works(unidev.check_same_device, tree)


@check(required=True, over="all_pairs")
def test_mappings_that_are_dataclasses(bench: Workbench, source: Device, target: Device) -> None:
    """Attributes and items of a mapping that is also a dataclass stay the same tensors."""
    x, mask = bench.matrix(source), bench.matrix(source)
    where = f"{source} to {target}"
    for tree in (Output(x), Longer(x, mask)):
        moved = bench.works(unidev.copy_to, tree, target)
        name = type(tree).__name__
        assert type(moved) is type(tree), f"{where}: {name} became {type(moved).__name__}"
        assert moved.get("data") is moved.data, f"{where}: the item of {name} is another tensor"
        bench.oracle.check_copy(x, moved.data, target, f"{name}, {where}")
        assert tree["data"] is tree.data is x, f"{where}: the original {name} was changed"
    bench.oracle.check_copy(mask, moved.mask, target, f"a subclass's field, {where}")


@check(required=True, over="all_pairs")
def test_kinds_that_need_no_registration(bench: Workbench, source: Device, target: Device) -> None:
    """Dataclasses, attrs' classes, mappings and lists of any class are copied as what they are."""
    x = bench.matrix(source)
    for tree, read in kinds_with(x):
        name = f"{type(tree).__name__}, {source} to {target}"
        for moved in (unidev.copy_to(tree, target), unidev.copy_to({"a": [tree]}, target)["a"][0]):
            assert type(moved) is type(tree), f"{name}: it became {type(moved).__name__}"
            assert moved is not tree, f"{name}: the copy is the source"
            is_whole = not isinstance(tree, list) or len(moved) == len(tree)
            assert is_whole, f"{name}: of {len(tree)} items {len(moved)} are left"
            assert read(tree) is x, f"{name}: the source was changed"
            bench.oracle.check_copy(x, read(moved), target, name)
        assert unidev.device_of(tree) is source, f"{name}: on {unidev.device_of(tree)}"
        assert unidev.as_in_device(tree, source) is tree, f"{name}: it was there, and is new"
    rows = unidev.copy_to(Rows(x), target)
    assert (rows[1], len(rows), rows.note) == (3, 2, "rows"), f"{source} to {target}: {rows!r}"


@check(over="all_pairs")
def test_key_order(bench: Workbench, source: Device, target: Device) -> None:
    """The keys of a dict keep their order, and need not be comparable with each other."""
    x = bench.matrix(source)
    for keys in (("b", "a", "c"), (2, 1, "a", None), ("z", 1, ("t", 0))):
        tree = {key: [x] if key == "a" else x for key in keys}
        found = bench.works(unidev.copy_to, tree, target)
        assert list(found) == list(keys), f"{source} to {target}: {keys} became {list(found)}"


@check()
def test_cycles_raise(bench: Workbench) -> None:
    """A container that contains itself raises its own error, instead of recursing without end."""
    x = bench.matrix(bench.cpu)
    in_list: list[Any] = [x]
    in_list.append(in_list)
    in_dict: dict[str, Any] = {"x": x}
    in_dict["deeper"] = [in_dict]
    for cycle in (in_list, in_dict):
        for verb in (unidev.copy_to, unidev.as_in_device):
            _raises_circular(bench, verb, cycle, bench.cpu)
        for question in (unidev.device_of, unidev.same_device, unidev.check_same_device):
            _raises_circular(bench, question, cycle)


def _raises_circular(bench: Workbench, call: Any, *arguments: Any) -> None:
    bench.expect(unidev.CircularContainerError, call, *arguments)


@check(required=True, over="pairs")
def test_mismatch_names_paths(bench: Workbench, one: Device, other: Device) -> None:
    """The error about tensors on different devices names each one's path and device."""
    batch = {"x": bench.matrix(one), "mask": [bench.matrix(other)]}
    error = bench.expect(unidev.DeviceMismatchError, unidev.check_same_device, batch=batch)
    for path, device in (("batch['x']", one), ("batch['mask'][0]", other)):
        assert f"{path}: {device}" in str(error), f"no {path!r} on {device} in: {error}"
        assert error.devices.get(path) is device, f"`devices` is {error.devices}"
    many = [bench.matrix(other) for _ in range(30)]
    error = bench.expect(unidev.DeviceMismatchError, unidev.check_same_device, x=batch["x"], y=many)
    assert len(error.devices) == 31, f"`devices` has {len(error.devices)} of 31 tensors"
    error = bench.expect(unidev.DeviceMismatchError, unidev.device_of, batch)
    for path, device in (("['x']", one), ("['mask'][0]", other)):
        assert f"{path}: {device}" in str(error), f"no {path!r} on {device} in: {error}"
