"""``all_reduce``: values, memory, and the number of copies. PYTEST_DONT_REWRITE."""

from __future__ import annotations

import math
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import example, given

import unidev
from unidev_conformance.kit import trees
from unidev_conformance.kit.current import check_stays
from unidev_conformance.kit.inputs import samples, shapes
from unidev_conformance.kit.inputs.strategies import a_few, from_seed, pick, some
from unidev_conformance.kit.processes.in_workers import WEIGHT_SCALES
from unidev_conformance.kit.reductions import OPERATIONS, check_numbers, corners, reducible
from unidev_conformance.kit.trees import Kinds, Leaf, Tree
from unidev_conformance.running.catalog import check

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unidev.device import Device
    from unidev_conformance.kit.workbench import Workbench

    Array = np.ndarray[Any, Any]
    Random = np.random.Generator

_NEEDS = ("collectives",)
_PRIMES = (2, 3, 5, 7, 11, 13, 17, 19)


@check(required=True, needs=_NEEDS)
def test_values(bench: Workbench) -> None:
    """Every operation gives the contract's numbers for trees of any tensors, on the device of each.

    Sums are those of the list's order, in the dtype or the wider one; means are close.
    """
    # The same trees for each operation, as far as it has the dtypes: packed, they are alike.
    kinds = trees.Kinds(reducible(bench, "sum"), trees.layouts(bench))
    for op in OPERATIONS:
        _check_operation(bench, op, bench.several(3), kinds)


def _check_operation(bench: Workbench, op: str, devices: list[Device], kinds: Kinds) -> None:
    dtypes = reducible(bench, op)

    def drawn(rng: Random) -> tuple[Tree, list[Device], list[float] | None]:
        tree, listed = trees.within(kinds.tree(rng), dtypes), some(rng, devices, 1, 5)
        found = trees.with_a_large_one(tree, shapes.size(rng)) if rng.integers(2) else tree
        is_weighted = op == "mean" and rng.integers(2)
        return found, listed, rng.uniform(0.1, 100, len(listed)).tolist() if is_weighted else None

    @a_few
    @given(from_seed(drawn))
    @example((corners(op, dtypes), [*devices[:2], devices[0]], None))
    @example((trees.many("float32"), devices[:2], None))
    def combined(case: tuple[Tree, list[Device], list[float] | None]) -> None:
        tree, listed, weights = case
        _check_values(bench, tree, listed, (op, weights))

    combined()


def _check_values(
    bench: Workbench, tree: Tree, listed: list[Device], how: tuple[str, list[float] | None]
) -> None:
    op, weights = how
    lists = [tree.tensors(bench, device, n) for n, device in enumerate(listed)]
    options = {} if weights is None else {"weights": weights}
    given_trees = [tree.nested(tensors) for tensors in lists]
    results = bench.works(unidev.all_reduce, given_trees, op, **options)
    assert len(results) == len(listed), f"{tree}: {len(results)} results of {len(listed)} trees"
    reduced = [tree.places(result) for result in results]
    for position, leaf in enumerate(tree.leaves):
        where = f"{op} on {[*map(str, listed)]}, weights {weights}, of {tree.where(position)}"
        arrays = [trees.numbers_in(bench, xs[position], leaf.dtype) for xs in lists]
        first = reduced[0][position]
        bench.oracle.check_kind(lists[0][position], first, where)
        check_numbers(trees.numbers_in(bench, first, leaf.dtype), arrays, leaf, how, where)
        content = bench.probe.read(first)
        for device, ys in zip(listed, reduced, strict=True):
            bench.oracle.check_device(ys[position], device, where)
            bench.oracle.check_bytes(ys[position], content, f"{where}, on {device} and the first")


@check(required=True, needs=_NEEDS)
def test_means(bench: Workbench) -> None:
    """A mean is weighted, by rows for example, and does not overflow on the way.

    Nor do the weights, whose sum may be more than a float can be.
    """
    devices = bench.several(3)
    xs = [bench.make(np.full(3, p, "float32"), d) for p, d in zip(_PRIMES, devices, strict=False)]
    rows = [4] * (len(devices) - 1) + [1]
    expected = np.average(_PRIMES[: len(devices)], weights=rows)
    for scale in WEIGHT_SCALES:
        weights = [each * scale for each in rows]
        for y in unidev.all_reduce(xs, "mean", weights=weights):
            found, said = unidev.to_numpy(y), f"weights {weights}"
            assert np.allclose(found, expected, rtol=1e-6), f"{said}: {found}, not {expected}"
    if "float16" in bench.dtypes(*devices):
        high = [bench.make(np.full(3, 60_000, "float16"), device) for device in devices]
        for y in unidev.all_reduce(high, "mean"):
            found = unidev.to_numpy(y)
            assert (found == 60_000).all(), f"the mean of 60,000 in float16 is {found.tolist()}"


@check(required=True, needs=_NEEDS)
def test_order(bench: Workbench) -> None:
    """Sums are taken in the order of the list: the same bits in every run, and on every device."""
    devices = bench.several(3)
    dtypes = [name for name in ("float32", "float64") if name in bench.dtypes(*devices)]

    def drawn(rng: Random) -> tuple[list[Device], Leaf]:
        listed = [devices[place] for place in rng.permutation(len(devices))]
        leaf = Leaf(pick(rng, dtypes), (shapes.size(rng, 50),), seed=int(rng.integers(2**16)))
        return listed, leaf

    @a_few
    @given(from_seed(drawn))
    def added(case: tuple[list[Device], Leaf]) -> None:
        listed, leaf = case
        arrays = [leaf.values(number) for number in range(len(listed))]
        total = arrays[0].copy()
        for each in arrays[1:]:
            total += each
        xs = [bench.make(array, device) for array, device in zip(arrays, listed, strict=True)]
        for y in unidev.all_reduce(xs):
            bench.oracle.check_bytes(y, total.tobytes(), f"the sum of {leaf} in the order {listed}")

    added()


@check(required=True, needs=_NEEDS)
def test_memory(bench: Workbench) -> None:
    """Results are in memory of no input and no other device, and a write to one stays there."""
    devices = bench.several(3)
    for listed in (devices, [devices[1]] * 3, devices[:1]):
        for size, count in ((3, 2), (3, 1), (2**20 + 1, 2)):  # packed, and by themselves
            trees = [_several(bench, size, count, device) for device in listed]
            before = [bench.probe.read(x) for tree in trees for x in tree]
            results = unidev.all_reduce(trees)
            where = f"all_reduce of {count} tensors of {size} numbers on {listed}"
            for x, content in zip((x for tree in trees for x in tree), before, strict=True):
                bench.oracle.check_bytes(x, content, f"{where}, an input")
            for one, other in combinations([*trees, *results], 2):
                for a in one:
                    for b in other:
                        bench.oracle.check_disjoint(a, b, f"{where}, of two trees")
            if bench.has("probe.write"):
                every = [x for tree in results for x in tree]
                bench.oracle.check_elements_apart(every, where)


def _several(bench: Workbench, size: int, count: int, device: Device) -> list[Any]:
    return [bench.make(samples.counting((size,)), device) for _ in range(count)]


@check(required=True, needs=_NEEDS)
def test_in_place(bench: Workbench) -> None:
    """The tensors that are held receive the results, views too, and nothing around a view changes.

    Immutable ones are refused, unchanged; so are others with one among them that is read-only, or
    of which several elements are one.
    """
    devices = bench.several(3)
    held = [{"y": bench.matrix(device), "x": bench.matrix(device)} for device in devices]
    if not bench.has("probe.write"):
        _check_refused_in_place(bench, held)
        return
    if isinstance(last := held[-1]["x"], np.ndarray):
        last.flags.writeable = False
        _check_refused_in_place(bench, held)
    for device in devices:
        x = bench.probe.views(bench.make(samples.counting((20, 30)), device))["broadcast"]
        if isinstance(x, np.ndarray):
            x.flags.writeable = True
        if sum(each.nbytes for each in bench.oracle.storage(x)) < len(bench.probe.read(x)):
            other = bench.make(samples.counting((3, 20, 30)), device)
            _check_refused_in_place(bench, [{"x": other}, {"x": x}])
    dtypes = reducible(bench, "sum")
    layouts = [layout for layout in trees.layouts(bench) if layout != "broadcast"]

    kinds = trees.Kinds(dtypes, layouts)

    @a_few
    @given(from_seed(lambda rng: (kinds.tree(rng), some(rng, devices, 1, 4))))
    @example((_views(dtypes, layouts), devices[:3]))
    def written(case: tuple[Tree, list[Device]]) -> None:
        _check_in_place(bench, *case)

    written()


def _views(dtypes: Sequence[str], layouts: Sequence[str]) -> Tree:
    """A leaf of each dtype and layout."""
    each = [(dtype, layout) for dtype in dtypes for layout in dict.fromkeys(layouts)]
    return Tree(tuple(Leaf(dtype, (5, 4), layout, n) for n, (dtype, layout) in enumerate(each)))


def _check_in_place(bench: Workbench, tree: Tree, listed: list[Device]) -> None:
    made = [
        [leaf.made_with_base(bench, device, number) for leaf in tree.leaves]
        for number, device in enumerate(listed)
    ]
    lists = [[x for x, _ in pairs] for pairs in made]
    before = [[bench.probe.read(base) for _, base in pairs] for pairs in made]
    are_views = [[_has_any(x) and bench.oracle.shares(x, y) for x, y in pairs] for pairs in made]
    memory = [[_has_any(x) and bench.oracle.storage(x) for x, _ in pairs] for pairs in made]
    expected = tree.places(unidev.all_reduce([*map(tree.nested, lists)])[0])  # the same on each
    given_trees = [*map(tree.nested, lists)]
    result = bench.works(unidev.all_reduce, given_trees, in_place=True)
    assert result is given_trees, "in place, the result is not the list that was given"
    for number, (pairs, contents, device) in enumerate(zip(made, before, listed, strict=True)):
        for position, (x, base) in enumerate(pairs):
            leaf, content = tree.leaves[position], contents[position]
            where = f"in place on {device}, {tree.where(position)}"
            total = bench.probe.read(expected[position])
            bench.oracle.check_device(x, device, where)
            bench.oracle.check_bytes(x, total, where)
            now = _has_any(x) and bench.oracle.storage(x)
            assert now == memory[number][position], f"{where}: it is in other memory"
            if x is base:
                continue
            around = _written_within(leaf, content, total)
            bench.oracle.check_bytes(
                base, around if are_views[number][position] else content,
                f"{where}: the larger tensor around it",
            )  # fmt: skip


def _has_any(x: Any) -> bool:
    return bool(math.prod(x.shape))


def _written_within(leaf: Leaf, base: bytes, part: bytes) -> bytes:
    """The bytes of the larger tensor once ``part`` has been written to its view."""
    values = leaf.values(spare_rows=trees.SPARE_ROWS if leaf.layout == trees.ROWS else 0)
    itemsize = values.itemsize if samples.is_numpy_dtype(leaf.dtype) else 2
    around = np.frombuffer(base, f"V{itemsize}").reshape(values.shape).copy()
    view = {
        trees.ROWS: lambda: around[1 : 1 + leaf.shape[0]],
        "transposed": lambda: around.T,
        "sliced": lambda: around[1:, ::2],
    }[leaf.layout]()
    view[...] = np.frombuffer(part, view.dtype).reshape(view.shape)
    content: bytes = around.tobytes()
    return content


def _check_refused_in_place(bench: Workbench, held: list[dict[str, Any]]) -> None:
    tensors = [x for tree in held for x in tree.values()]
    before = [*map(bench.probe.read, tensors)]
    bench.expect(unidev.UnsupportedOperation, unidev.all_reduce, held, in_place=True)
    for x, content in zip(tensors, before, strict=True):
        bench.oracle.check_bytes(x, content, "after a refusal")


@check(required=True, needs=_NEEDS)
def test_ties(bench: Workbench) -> None:
    """A tensor that stands at two places is reduced once, and stays one."""
    devices = bench.several(3)
    xs = [bench.make(np.full(2, p, "float32"), d) for p, d in zip(_PRIMES, devices, strict=False)]
    results = unidev.all_reduce([{"a": x, "b": (x,)} for x in xs])
    total = sum(_PRIMES[: len(devices)])
    for result in results:
        assert result["b"][0] is result["a"], "a tie has come apart"
        found = unidev.to_numpy(result["a"])
        assert (found == total).all(), f"{found} instead of {total}"


@check(required=True, needs=(*_NEEDS, "tracer"))
def test_transfers(bench: Workbench) -> None:
    """2 (n - 1) copies for each dtype and each large tensor, however many small ones there are."""
    devices = bench.several(3)
    trees = [
        [
            *(bench.make(samples.counting((2, n + 1)), device) for n in range(30)),
            *(bench.make(samples.counting((n + 1,), "int32"), device) for n in range(5)),
            bench.make(samples.big(), device),
        ]
        for device in devices
    ]
    with unidev.trace_transfers() as trace:
        unidev.all_reduce(trees)
    found = [transfer for transfer in trace.transfers if transfer.operation == "all_reduce"]
    expected = 3 * 2 * (len(devices) - 1)
    assert len(found) == expected, f"{len(found)} copies instead of {expected}"


@check(required=True, needs=(*_NEEDS, "autograd", "functions"))
def test_cut_from_autograd(bench: Workbench) -> None:
    """Gradients do not flow through a reduction."""
    devices = bench.several(3)
    xs = [bench.make(np.ones(2, "float32"), device) for device in devices[:2]]
    target = bench.make(np.zeros(2, "float32"), devices[0])

    def loss_of(trees: Any) -> Any:
        reduced = unidev.all_reduce(trees)[0]
        return unidev.nn.functional.mean_squared_error(reduced, target)

    bench.expect(unidev.InvalidDataError, unidev.value_and_grad(loss_of), xs)


@check(required=True, needs=_NEEDS)
def test_refusals(bench: Workbench) -> None:
    """Trees that do not match are errors that say where, in which trees."""
    devices = bench.several(3)
    x, y = bench.matrix(devices[0]), bench.matrix(devices[1])
    other, flag = bench.make(samples.counting((4,)), devices[1]), bench.of_dtype("bool", devices[0])
    of = unidev.all_reduce
    shape = bench.expect(unidev.InvalidDataError, of, [{"w": x}, {"w": other}])
    assert "'w'" in str(shape), f"the path is not in: {shape}"
    assert "[1]" in str(shape), f"the tree is not in: {shape}"
    bench.expect(unidev.InvalidDataError, of, [{"w": x}, {"v": y}])
    bench.expect(unidev.InvalidDataError, of, [[x], (y,)])
    bench.expect(unidev.InvalidDataError, of, [x, y], "product")
    bench.expect(unidev.InvalidDataError, of, [x, y], "mean", weights=[1, -1])
    bench.expect(unidev.InvalidDataError, of, [x, y], in_place=x)
    bench.expect(unidev.DeviceMismatchError, of, [{"a": x, "b": y}, {"a": x, "b": y}])
    bench.expect(unidev.UnsupportedDtypeError, of, [flag, flag])
    bench.expect(unidev.ContainerError, of, {"w": x})
    bench.expect(unidev.ContainerError, of, (each for each in (x, y)))


@check(required=True, needs=(*_NEEDS, "probe.current"), over="gpus")
def test_current_device_stays(bench: Workbench, device: Device) -> None:
    """Splitting, broadcasting and reducing change neither the current device nor the stream."""
    devices = bench.several(2)
    x = bench.make(samples.counting((len(devices), 3)), bench.cpu)
    calls = {
        "split_batch": lambda: unidev.split_batch(x, devices),
        "broadcast": lambda: unidev.broadcast(x, devices),
        "all_reduce": lambda: unidev.all_reduce(unidev.broadcast(x, devices), "sum"),
        "gather": lambda: unidev.gather(unidev.split_batch(x, devices), bench.cpu),
    }
    check_stays(bench, device, calls.items())
