"""What the suite draws: every dtype, sizes on both sides of each limit, and the same each time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from unidev.backends.loading import load_backend
from unidev_conformance.checks.tensor import test_copy
from unidev_conformance.kit.inputs import drawing, strategies
from unidev_conformance.kit.inputs.drawing import HOST_LAYOUTS, KIB, MIB, Drawn, drawn
from unidev_conformance.kit.inputs.strategies import Leaf
from unidev_conformance.kit.workbench import Workbench
from unidev_conformance.running.catalog import check

DTYPES = ("bool", "bfloat16", "float16", "float32", "complex128")


@pytest.fixture
def bench(two_gpus: None) -> Workbench:
    return Workbench(load_backend("numpy"))


def draw(bench: Workbench, seed: str = "cpu:0, gpu:0") -> list[Drawn]:
    return list(drawn(DTYPES, bench.devices, seed))


def nbytes(case: Drawn) -> int:
    return case.values.size * drawing._itemsize(case.dtype)


def test_each_dtype_comes_on_both_sides_of_8_kib_and_some_above_every_limit(
    bench: Workbench,
) -> None:
    cases = draw(bench)
    for dtype in DTYPES:
        sizes = [nbytes(case) for case in cases if case.dtype == dtype]
        assert any(size < 8 * KIB for size in sizes)
        assert any(8 * KIB <= size < MIB for size in sizes)
    assert any(MIB <= nbytes(case) < 16 * MIB for case in cases)
    assert any(nbytes(case) > 16 * MIB for case in cases)


def test_layouts_axes_and_scopes_are_all_drawn(bench: Workbench) -> None:
    cases = [case for seed in "abcde" for case in draw(bench, seed)]
    assert {case.layout for case in cases} == set(drawing.LAYOUTS)
    assert {case.host_layout for case in cases} == set(HOST_LAYOUTS)
    assert {case.values.ndim for case in cases} == {1, 2, 3, 4, 5}
    assert {case.is_read_only for case in cases} == {True, False}
    assert {case.scope for case in cases} == {None, *bench.devices}


def test_each_dtype_comes_in_each_layout_on_request(bench: Workbench) -> None:
    assert set(bench.layouts) == {*drawing.LAYOUTS, *drawing.MORE_LAYOUTS}
    cases = drawn(DTYPES, [], "a", layouts=bench.layouts, in_each=True)
    small = {(case.dtype, case.layout) for case in cases if nbytes(case) < 9 * KIB}
    assert small >= {(dtype, layout) for dtype in DTYPES for layout in bench.layouts}


@pytest.mark.parametrize("layout", drawing.MORE_LAYOUTS)
def test_a_layout_of_four_axes_is_a_view_of_what_was_made(bench: Workbench, layout: str) -> None:
    values = np.arange(2.0 * 3 * 2 * 4).reshape(3, 2, 4, 2)
    case = Drawn(values, "float64", layout, "in C order", is_read_only=False, scope=None)
    x = case.make_laid_out(bench.probe, bench.cpu)
    assert np.array_equal(x, drawing.MORE_LAYOUTS[layout](values))
    assert x.base is not None


def test_numbers_are_held_exactly_and_runs_fit() -> None:
    for seed in range(50):
        rng = np.random.Generator(np.random.Philox(seed))
        for dtype in ("bool", "int8", "int64", "uint64", "float16", "float32", "complex64"):
            value = strategies.number(rng, dtype)
            assert np.array(value, dtype).item() == value
        for dtype in ("int32", "int64", "uint64"):
            run = list(strategies.run(rng, dtype))
            assert np.array(run, dtype).tolist() == run


def test_trees_reach_each_dtype_and_layout_many_leaves_and_ties() -> None:
    trees = [
        strategies.tree(np.random.Generator(np.random.Philox(seed)), DTYPES, drawing.LAYOUTS, 40)
        for seed in range(15)
    ]
    leaves = [leaf for tree in trees for leaf in flat(tree)]
    assert {leaf.dtype for leaf in leaves} == set(DTYPES)
    assert {leaf.layout for leaf in leaves} == set(drawing.LAYOUTS)
    assert max(len(flat(tree)) for tree in trees) > 30
    assert any(len(set(flat(tree))) < len(flat(tree)) for tree in trees)


def flat(tree: Any) -> list[Leaf]:
    if isinstance(tree, Leaf):
        return [tree]
    if not isinstance(tree, (dict, list, tuple)):
        return []
    inner = tree.values() if isinstance(tree, dict) else tree
    return [leaf for each in inner for leaf in flat(each)]


def test_a_seed_draws_the_same_each_time_and_another_something_else(bench: Workbench) -> None:
    first, again, other = (draw(bench, seed) for seed in ("a", "a", "b"))
    assert [str(case) for case in first] == [str(case) for case in again]
    assert all(a.values.tobytes() == b.values.tobytes() for a, b in zip(first, again, strict=True))
    assert [str(case) for case in first] != [str(case) for case in other]


def test_floats_have_nan_payloads_and_bfloat16_only_what_survives_a_conversion(
    bench: Workbench,
) -> None:
    for case in draw(bench):
        if case.dtype == "bfloat16":
            assert case.values.dtype == np.float32
            assert not np.isnan(case.values).any()
            assert not (case.values.view("uint32") & 0xFFFF).any()
        elif case.dtype == "float32" and case.values.size > 100:
            bits = case.values.view("uint32")[np.isnan(case.values)]
            assert len(set(bits.tolist())) > 2


@pytest.mark.parametrize("how", HOST_LAYOUTS)
def test_an_array_of_the_host_lies_in_its_owners_memory(how: str) -> None:
    values = np.arange(6, dtype="int32").reshape(2, 3)
    case = Drawn(values, "int32", "contiguous", how, is_read_only=True, scope=None)
    owner, array = case.on_host()
    expected = values if how != "broadcast" else np.broadcast_to(values[:1], (2, 3))
    assert np.array_equal(array, expected)
    assert (owner.flags.writeable, array.flags.writeable) == (True, False)
    owner[...] = 9
    assert (array == 9).all()
    assert not (values == 9).any()


def test_a_check_over_pairs_is_called_with_each_pair_and_takes_the_workbench_alone(
    bench: Workbench,
) -> None:
    seen = []

    def test_zero_d(bench: Workbench, source: Any, target: Any) -> None:
        """Nothing."""
        seen.append((source, target))

    test_zero_d.__module__ = test_copy.__name__
    check(over="pairs")(test_zero_d)(bench)
    assert seen == bench.pairs()
    seen.clear()

    def test_shape_kept(bench: Workbench, device: Any) -> None:
        """Nothing."""
        seen.append(device)

    test_shape_kept.__module__ = test_copy.__name__
    check(over="devices")(test_shape_kept)(bench)
    assert seen == bench.devices
