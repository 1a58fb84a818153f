"""``split_batch`` and ``gather``: rows on several devices, and back. PYTEST_DONT_REWRITE."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import example, given

import unidev
from unidev_conformance.kit import trees
from unidev_conformance.kit.inputs import samples, shapes
from unidev_conformance.kit.inputs.strategies import a_few, from_seed, pick, some
from unidev_conformance.kit.trees import Leaf, Tree
from unidev_conformance.running.catalog import check

if TYPE_CHECKING:
    from collections.abc import Callable

    from unidev.device import Device
    from unidev_conformance.kit.workbench import Workbench

    Random = np.random.Generator

_NEEDS = ("collectives",)


@check(required=True, needs=_NEEDS)
def test_shards(bench: Workbench) -> None:
    """Each device gets its share of the rows, in order, evenly or in proportion to weights."""
    devices = bench.several(3)
    kinds = trees.Kinds(bench.dtypes(*devices), trees.layouts(bench), is_bits=True)

    def drawn(rng: Random) -> tuple[Tree, list[Device], list[float] | None]:
        tree, rows = kinds.tree(rng, 12), pick(rng, (0, *shapes.ROWS))
        listed = some(rng, devices, 1, 9)
        weights = pick(rng, (rng.integers(1, 10, len(listed)), rng.uniform(0.01, 100, len(listed))))
        found = _with_rows(tree, rows) if rows else tree
        return found, listed, weights.tolist() if rng.integers(2) else None

    of_each, of_some = _of_each(bench), _of_each(bench, 3)
    each = [
        _with_rows(tree, rows)
        for tree, rows in ((of_each, 3 * len(devices)), (of_some, 17), (of_some, 4))
    ]

    @a_few
    @given(from_seed(drawn))
    @example((each[0], devices, None))
    @example((each[1], devices, [1] * len(devices)))
    @example((each[1], [*devices, devices[0]], [2, 1, 1.5, 0.7, 3, 1][: len(devices) + 1]))
    @example((each[2], [devices[0]] * 3, [1, 1, 9]))
    def split(case: tuple[Tree, list[Device], list[float] | None]) -> None:
        _check_split(bench, *case)

    split()


def _of_each(bench: Workbench, step: int = 1) -> Tree:
    """A leaf of each dtype, or of one in ``step``; every second one is a slice."""
    both = (trees.CONTIGUOUS, trees.ROWS)
    return Tree(
        tuple(
            Leaf(dtype, (1, 2), both[number % 2], number, is_bits=True)
            for number, dtype in enumerate(bench.dtypes(*bench.devices)[::step])
        ),
        again=(0,),
    )


def _with_rows(tree: Tree, rows: int) -> Tree:
    """``tree`` with as many rows in each leaf, also where it is a view of a matrix."""

    def with_rows(leaf: Leaf) -> Leaf:
        if leaf.layout in ("transposed", "sliced") and rows > 1:
            columns = leaf.shape[-1]
            is_sliced = leaf.layout == "sliced"
            return replace(leaf, shape=(rows + 1, 2 * columns) if is_sliced else (columns, rows))
        layout = leaf.layout if leaf.layout == trees.ROWS else trees.CONTIGUOUS
        return replace(leaf, shape=(rows, *leaf.shape[1:]), layout=layout)

    return replace(tree, leaves=tuple(map(with_rows, tree.leaves)))


def _check_split(
    bench: Workbench, tree: Tree, listed: list[Device], weights: list[float] | None
) -> None:
    home = bench.devices[-1]
    xs = tree.tensors(bench, home)
    rows = {int(x.shape[0]) if len(x.shape) else -1 for x in xs}
    batch = tree.nested(xs)
    how = f"by {[*map(str, listed)]}, weights {weights}"
    sizes = _shares(max(rows), listed, weights)
    if len(rows) > 1 or min(rows) < 0 or 0 in sizes:
        bench.expect(unidev.InvalidDataError, unidev.split_batch, batch, listed, weights=weights)
        return
    shards = bench.works(unidev.split_batch, batch, listed, weights=weights)
    assert len(shards) == len(listed), f"{tree} {how}: {len(shards)} shards"
    contents = [_rows_of(bench, x) for x in xs]
    start = 0
    for shard, device, size in zip(shards, listed, sizes, strict=True):
        parts = tree.places(shard)
        for position, (x, content) in enumerate(zip(xs, contents, strict=True)):
            part, where = parts[position], f"{tree.where(position)}, {how}, the shard of {device}"
            bench.oracle.check_device(part, device, where)
            shape = (size, *map(int, x.shape[1:]))
            assert tuple(part.shape) == shape, f"{where}: shape {tuple(part.shape)}, not {shape}"
            assert part.dtype == x.dtype, f"{where}: {part.dtype} instead of {x.dtype}"
            expected = b"".join(content[start : start + size])
            bench.oracle.check_bytes(part, expected, where)
            if expected:
                bench.oracle.check_disjoint(x, part, where)
        start += size


def _shares(rows: int, listed: list[Device], weights: list[float] | None) -> list[int]:
    """By largest remainder, as the contract says."""
    parts = [Fraction(weight) for weight in weights or [1] * len(listed)]
    exact = [rows * part / sum(parts) for part in parts]
    sizes = [math.floor(each) for each in exact]
    while sum(sizes) < rows:
        missing = [each - size for each, size in zip(exact, sizes, strict=True)]
        sizes[missing.index(max(missing))] += 1
    return sizes


def _rows_of(bench: Workbench, x: Any) -> list[bytes]:
    """The bytes of each row."""
    content, count = bench.probe.read(x), int(x.shape[0])
    size = len(content) // count
    return [content[size * row : size * (row + 1)] for row in range(count)]


@check(required=True, needs=_NEEDS)
def test_refusals(bench: Workbench) -> None:
    """Too few rows, rows that differ, and wrong weights are errors that name paths and numbers."""
    devices = bench.several(3)
    x = bench.make(samples.counting((len(devices) - 1, 2)), devices[0])
    longer = bench.make(samples.counting((len(devices), 2)), devices[0])
    number = bench.make(np.array(1, "float32"), devices[0])
    few = bench.expect(unidev.InvalidDataError, unidev.split_batch, x, devices)
    assert str(len(devices) - 1) in str(few), f"the number of rows is not in: {few}"
    batch = {"image": longer, "label": x}
    differ = bench.expect(unidev.InvalidDataError, unidev.split_batch, batch, devices)
    assert "image" in str(differ), f"the path is not in: {differ}"
    bench.expect(unidev.InvalidDataError, unidev.split_batch, [number], devices)
    bench.expect(unidev.DeviceError, unidev.split_batch, longer, [])
    bench.expect(unidev.UnsupportedContainerError, unidev.gather, longer, devices[0])
    for weights in ([1], [0, *[1] * (len(devices) - 1)], "abc"):
        bench.expect(unidev.InvalidDataError, unidev.split_batch, longer, devices, weights=weights)


@check(required=True, needs=_NEEDS)
def test_gather_inverts(bench: Workbench) -> None:
    """Gathering gives the rows of all shards bit for bit, also of empty ones, on any device."""
    devices = bench.several(3)
    dtypes, within = bench.dtypes(*devices), trees.layouts(bench)
    kinds, each = trees.Kinds(dtypes, within, 60, is_bits=True), _of_each(bench)

    def drawn(rng: Random) -> tuple[Tree, list[tuple[Device, int]], Device]:
        shards = [(device, shapes.size(rng, most=1025)) for device in some(rng, devices, 1, 7)]
        return kinds.tree(rng, 12), shards, pick(rng, devices)

    @a_few
    @given(from_seed(drawn))
    @example((each, [(devices[0], 1), (devices[1], 3), (devices[2], 2)], devices[1]))
    @example((each, [(devices[2], 0), (devices[0], 4), (devices[1], 0)], devices[0]))
    @example((each, [(devices[1], 0), (devices[1], 0)], devices[0]))
    def gathered(case: tuple[Tree, list[tuple[Device, int]], Device]) -> None:
        tree, shards, target = case
        lists = [
            _with_rows(tree, rows).tensors(bench, device, number)
            for number, (device, rows) in enumerate(shards)
        ]
        whole = bench.works(unidev.gather, [tree.nested(tensors) for tensors in lists], target)
        how = f"gathered from {[(str(device), rows) for device, rows in shards]} to {target}"
        for position, y in enumerate(tree.places(whole)[: len(tree.leaves)]):
            where = f"{tree.where(position)}, {how}"
            xs = [tensors[position] for tensors in lists]
            bench.oracle.check_device(y, target, where)
            shape = (sum(rows for _, rows in shards), *map(int, xs[0].shape[1:]))
            assert tuple(y.shape) == shape, f"{where}: shape {tuple(y.shape)}, not {shape}"
            assert y.dtype == xs[0].dtype, f"{where}: {y.dtype} instead of {xs[0].dtype}"
            bench.oracle.check_bytes(y, b"".join(map(bench.probe.read, xs)), where)
            for x in xs:
                if math.prod(x.shape):
                    bench.oracle.check_disjoint(x, y, where)

    gathered()


@check(required=True, needs=_NEEDS)
def test_memory(bench: Workbench) -> None:
    """Shards share no memory with the batch or each other, nor does what is gathered."""
    devices = bench.several(3)
    for listed in (devices, [devices[0]] * 3, [devices[1]]):
        x = bench.make(samples.counting((6, 500)), devices[0])
        shards = unidev.split_batch(x, listed)
        held: list[Any] = [x, *shards, unidev.gather(shards, listed[0])]
        for (i, one), (j, other) in combinations(enumerate(held), 2):
            where = f"the batch, its shards on {listed} and what is gathered, number {i} and {j}"
            bench.oracle.check_disjoint(one, other, where)
        if bench.has("probe.write"):
            bench.oracle.check_elements_apart(held, f"the batch and its shards on {listed}")


@check(required=True, needs=_NEEDS)
def test_specials(bench: Workbench) -> None:
    """Special tensors keep bits and dtype, with its byte order, in each verb, or are refused."""
    *_, source, target = bench.several(3)
    both = [target] * 2
    verbs: dict[str, Callable[[Any], Any]] = {
        "gather": lambda x: unidev.split_batch(unidev.gather([x, x], target), both)[1],
        "split_batch": lambda x: unidev.gather(unidev.split_batch(x, both), target),
        "broadcast": lambda x: unidev.broadcast([x, x], [target])[0][1],
        "all_reduce": lambda x: unidev.all_reduce([x, x], "max")[1],
    }
    for name, x in bench.probe.specials(source).items():
        content = bench.probe.read(x)
        for verb, call in verbs.items():
            where = f"{verb} of {name} ({x.dtype} {tuple(x.shape)}), {source} to {target}"
            try:
                y = call(x)
            except unidev.UnidevError as refusal:
                bench.evidence.add("refused", f"{where}: {refusal}")
                continue
            assert y.dtype == x.dtype, f"{where}: {y.dtype} instead of {x.dtype}"
            bench.oracle.check_bytes(y, content, where)
            bench.oracle.check_device(y, source if verb == "all_reduce" else target, where)


@check(required=True, needs=(*_NEEDS, "autograd", "functions"))
def test_gradients(bench: Workbench) -> None:
    """Gradients flow back through shards and through what is gathered."""
    devices = bench.several(3)
    values = samples.counting((4, 2))
    x, target = (bench.make(array, devices[0]) for array in (values, np.zeros((4, 2), "float32")))

    def loss_of(given: Any) -> Any:
        whole = unidev.gather(unidev.split_batch(given, devices[:2]), devices[0])
        return unidev.nn.functional.mean_squared_error(whole, target)

    _, gradient = bench.works(unidev.value_and_grad(loss_of), x)
    bench.oracle.check_device(gradient, devices[0], "the gradient of a batch")
    found, expected = unidev.to_numpy(gradient), 2 * values / values.size
    assert np.allclose(found, expected, rtol=1e-6), f"the gradient is {found}, not {expected}"
