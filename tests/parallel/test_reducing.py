"""``all_reduce``: the number of copies in buckets, own containers, and what it refuses."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import unidev


def test_registered_containers_whose_fields_cannot_be_compared(gpus: list[unidev.Device]) -> None:
    @unidev.register_container
    @dataclasses.dataclass
    class Gradients:
        w: Any

    trees = [Gradients(unidev.ones(2, device=gpu)) for gpu in gpus[:2]]
    assert unidev.to_numpy(unidev.all_reduce(trees)[1].w).tolist() == [2, 2]


def refused() -> list[Any]:
    x, y, flag = np.zeros((3, 2), np.float32), np.zeros(3), np.zeros(2, bool)
    whole, complex_ = np.zeros(2, int), np.zeros(2, complex)
    invalid, dtype = unidev.InvalidDataError, unidev.UnsupportedDtypeError
    container = unidev.UnsupportedContainerError
    return [
        ([{"w": x}, {"w": y}], {}, invalid, r"trees\[1\]\['w'\] is .*\(3,\).*trees\[0\].*\(3, 2\)"),
        ([[x], [x.astype(float)]], {}, invalid, r"trees\[1\]\[0\] is a float64.*float32"),
        ([[x, y], [x]], {}, invalid, "trees must have one structure.*only 1 tensor"),
        ([[x, x], [x, x.copy()]], {}, invalid, "one object"),
        ([x, x], {"op": "product"}, invalid, "sum, mean, min, max, not 'product'"),
        ([x, x], {"op": ["sum"]}, invalid, "sum, mean, min, max"),
        ([x, x], {"weights": [1, 2]}, invalid, "weights are those of a mean"),
        ([x, x], {"op": "mean", "weights": [1]}, invalid, "2 positive numbers, one for each tree"),
        ([{"n": whole}] * 2, {"op": "mean"}, dtype, r"mean of trees\[0\]\['n'\].*int64.*floating"),
        ([flag, flag], {}, dtype, "bool"),
        ([complex_] * 2, {"op": "max"}, dtype, "no order"),
        ([np.array(["a"])] * 2, {}, dtype, "<U1"),
        ({"w": x}, {}, container, "not a dict"),
        (x, {}, container, "not a numpy.ndarray"),
        ((x for _ in range(2)), {}, container, "not a generator"),
        ([], {}, container, "empty list"),
        ([1, 2], {}, unidev.NotATensorError, "a tensor is needed"),
        ([{}, {}], {}, unidev.NotATensorError, "no tensors"),
    ]  # fmt: skip


@pytest.mark.parametrize(("trees", "options", "error", "message"), refused())
def test_all_reduce_refuses(
    trees: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        unidev.all_reduce(trees, **options)
