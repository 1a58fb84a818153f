"""What checks compute with has few shapes, since a framework that compiles does so for each."""

from __future__ import annotations

import math
from contextlib import contextmanager
from itertools import product
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np
import pytest

from unidev.backends.loading import load_backend
from unidev.backends.numpy_backend.collectives import NumpyCollectives
from unidev.parallel.devices.batches import shares
from unidev_conformance.checks.multi import test_reducing, test_splitting
from unidev_conformance.checks.train import test_training_sequences
from unidev_conformance.kit import trees
from unidev_conformance.kit.inputs import shapes
from unidev_conformance.kit.workbench import Workbench

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

DTYPES = ("bool", "int64", "float16", "float32", "complex64")
MOST: Mapping[str, int] = {
    "reducing.values": 250, "splitting.shards": 85, "splitting.gather_inverts": 60,
    "training_sequences": 120,
}  # fmt: skip
"""Programs that a framework would compile; of any shapes, ``reducing.values`` had 453."""
CHECKS: Mapping[str, Callable[[Workbench], None]] = {
    "reducing.values": test_reducing.test_values,
    "splitting.shards": test_splitting.test_shards,
    "splitting.gather_inverts": test_splitting.test_gather_inverts,
    "training_sequences": test_training_sequences.test_of_models_and_shards,
}


@pytest.fixture
def bench(two_gpus: None) -> Workbench:
    return Workbench(load_backend("numpy"))


def generator(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(seed))


def test_trees_have_all_shapes_of_the_pool_and_no_others(bench: Workbench) -> None:
    kinds = trees.Kinds(DTYPES, trees.layouts(bench))
    leaves = [leaf for seed in range(60) for leaf in kinds.tree(generator(seed)).leaves]
    assert {leaf.shape for leaf in leaves} == {*shapes.SHAPES, *shapes.MATRICES}
    assert {leaf.dtype for leaf in leaves} == set(DTYPES)
    assert {leaf.layout for leaf in leaves} == set(trees.layouts(bench))


def test_the_pool_has_what_kernels_treat_differently() -> None:
    counts = {math.prod(shape) for shape in shapes.SHAPES}
    assert {0, 1} <= counts
    assert {len(shape) for shape in shapes.SHAPES} >= {0, 1, 2, 3, 4}
    assert any(count > 64 and count % 16 for count in counts)  # a tail after vectors of 64 bytes
    assert any(count > 64 and not count % 64 for count in counts)
    assert max(shapes.SIZES) % 256


def test_shards_of_few_rows_have_few_rows() -> None:
    rows = {*shapes.FEW_ROWS, *(shape[0] for shape in shapes.BATCHES)}
    assert rows == set(shapes.FEW_ROWS)
    for count, parts in product(rows, (2, 3, 4)):
        assert set(shares(count, parts, None)) <= {0, *rows}


def test_a_tree_within_dtypes_keeps_their_leaves_and_ties() -> None:
    leaves = tuple(trees.Leaf(dtype, (3,), seed=n) for n, dtype in enumerate(DTYPES))
    tree = trees.Tree(leaves, again=(0, 3, 4))
    found = trees.within(tree, ["int64", "float32"])
    assert [leaf.seed for leaf in found.leaves] == [1, 3]
    assert found.again == (1,)
    none_left = trees.within(tree, ["int8"])
    assert [leaf.dtype for leaf in none_left.leaves] == ["int8"] * len(DTYPES)
    assert none_left.again == tree.again


@pytest.mark.parametrize("check", CHECKS)
def test_a_check_would_compile_few_programs(bench: Workbench, check: str) -> None:
    with np.errstate(all="ignore"), recorded(bench) as seen:
        CHECKS[check](bench)
    assert MOST[check] / 2 < len(seen) <= MOST[check]


@contextmanager
def recorded(bench: Workbench) -> Iterator[set[object]]:
    """The calls of NumPy's collectives, alike if a framework would compile them once.

    What these call of each other's is compiled with them.
    """
    seen: set[object] = set()
    running = [""]

    def described(given: Any) -> object:
        if isinstance(given, np.ndarray):
            return given.shape, given.dtype.name, str(bench.backend.device_of(given))
        if isinstance(given, (list, tuple)):
            return tuple(map(described, given))
        return None if isinstance(given, float) else given

    def recording(name: str) -> Callable[..., Any]:
        sound = getattr(NumpyCollectives, name)

        def call(self: NumpyCollectives, *given: Any) -> Any:
            # Rows are cut out by a program for so many, wherever they start.
            of = (given[0], given[2] - given[1]) if name == "rows" else given
            if running == [""]:
                seen.add((name, described(of)))
            running.append(name)
            try:
                return sound(self, *given)
            finally:
                running.pop()

        return call

    names = ("pack", "unpack", "combine", "scale", "concatenate", "rows")
    with mock.patch.multiple(NumpyCollectives, **{name: recording(name) for name in names}):
        yield seen
