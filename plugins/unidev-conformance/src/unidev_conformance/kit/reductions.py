"""References for reductions: what the contract of ``all_reduce`` says, in NumPy.

Nothing of unidev computes here, except to find out which dtypes a backend declines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import unidev
from unidev_conformance.kit import trees
from unidev_conformance.kit.trees import Leaf, Tree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unidev_conformance.kit.workbench import Workbench

    Array = np.ndarray[Any, Any]

OPERATIONS = ("sum", "min", "max", "mean")
_COMMON = ("int8", "int32", "int64", "uint8", "float16", "bfloat16", "float32", "float64")
"""Dtypes that every backend that has them must reduce; others it may refuse."""
_MOST_FILLED = 5
EPSILONS = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float64": 2.0**-53, "complex128": 2.0**-53}


def reducible(bench: Workbench, op: str) -> list[str]:
    """The dtypes with this operation; the contract's refusals are checked on the way."""
    found: list[str] = []
    for dtype in bench.dtypes(*bench.devices):
        x = bench.of_dtype(dtype, bench.cpu)
        is_undefined = (
            dtype == "bool"
            or (op == "mean" and "int" in dtype)
            or (op in ("min", "max") and dtype.startswith("complex"))
        )
        if is_undefined:
            bench.expect(unidev.UnsupportedDtypeError, unidev.all_reduce, [x, x], op)
            continue
        try:
            unidev.all_reduce([x, x], op)
        except unidev.UnsupportedDtypeError as error:
            if dtype in _COMMON:
                raise AssertionError(f"{op} of {dtype} is refused: {error}") from error
            bench.evidence.add("refused", f"{op} of {dtype}: {error}")
        else:
            found.append(dtype)
    return found


def corners(op: str, dtypes: Sequence[str]) -> Tree:
    """Two leaves of each dtype, one without axes, and values on which careless reductions fail."""
    nan, inf = float("nan"), float("inf")
    leaves = []
    for number, dtype in enumerate(dtypes):
        leaves += [Leaf(dtype, (), seed=number), Leaf(dtype, (67,), seed=number)]
        filled: list[tuple[float, ...]] = []
        if "int" in dtype and op == "sum":
            largest = int(np.iinfo(dtype).max)
            filled = [(largest, largest, 3)]
        elif dtype in ("float16", "bfloat16") and op == "sum":
            filled = [(256, 1, 1), (2048, 1, 1), (60_000, 60_000, -60_000)]
        elif "float" in dtype:
            high = 2.0**15 if dtype == "float16" else 2.0**127
            filled = [(nan, 1, 2), (1, nan, 2), (1, 2, nan), (inf, 1, 2)]
            filled += [(high, high, 1)] if op == "mean" else []
        # As many for each operation, so that what packs them is compiled once.
        filled += [()] * (_MOST_FILLED - len(filled))
        leaves += [Leaf(dtype, (19,), filled=each) for each in filled]
    return Tree(tuple(leaves), (1,))


def check_numbers(
    found: Array,
    arrays: Sequence[Array],
    leaf: Leaf,
    how: tuple[str, list[float] | None],
    where: str,
) -> None:
    """``found`` is the reduction of ``arrays``; ``how`` is the operation and the weights."""
    op, weights = how
    with np.errstate(all="ignore"):
        if op == "mean":
            _check_mean(found, arrays, leaf.dtype, weights or [1.0] * len(arrays), where)
            return
        wide = "float32" if leaf.dtype in ("float16", "bfloat16") else leaf.dtype
        combine = {"sum": np.add, "min": np.minimum, "max": np.maximum}[op]
        total = arrays[0].astype(wide)
        for each in arrays[1:]:
            total = combine(total, each.astype(wide))
        expected = trees.rounded_to(leaf.dtype, total)
        _check_right((found == expected) | (found != found), found, expected, where)  # noqa: PLR0124
        _check_right(np.isnan(found) == np.isnan(expected), found, expected, where)


def _check_mean(
    found: Array, arrays: Sequence[Array], dtype: str, weights: list[float], where: str
) -> None:
    """Within the rounding of the dtype, and of as many products and sums in the wider one."""
    exact = "clongdouble" if dtype.startswith("complex") else "longdouble"
    parts = [x.astype(exact) * (w / sum(weights)) for x, w in zip(arrays, weights, strict=True)]
    expected, most = np.sum(parts, 0), np.sum(np.abs(parts), 0)
    own = EPSILONS.get(dtype, 2.0**-24)
    allowed = own * abs(expected) + 2 * (len(arrays) + 2) * min(own, 2.0**-24) * most
    # float16 has fewer digits below its smallest normal number.
    allowed = allowed + (2.0**-25 if dtype == "float16" else 0)
    is_close = (found == expected) | (abs(found - expected) <= allowed)
    is_nan = np.isnan(found) & np.isnan(expected)
    _check_right(is_close | is_nan, found, expected, where)


def _check_right(is_right: Array, found: Array, expected: Array, where: str) -> None:
    if is_right.all():
        return
    first = int(np.argmin(is_right.reshape(-1)))
    raise AssertionError(
        f"{where}: element {first} of {found.size} is {found.reshape(-1)[first]}, not "
        f"{expected.reshape(-1)[first]}"
    )
