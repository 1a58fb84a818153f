"""``all_reduce``: values, memory, the number of copies, and what it refuses."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import unidev
from unidev.parallel import packing

PRIMES = (2, 3, 5, 7)


def trees_of(devices: list[unidev.Device], dtype: str = "float32") -> list[dict[str, Any]]:
    trees = []
    for prime, device in zip(PRIMES, devices, strict=False):
        w = unidev.full((2, 3), prime, dtype=dtype, device=device)
        trees.append(
            {
                "w": w,
                "tied": w,
                "zero_d": unidev.full((), prime * 10, dtype=dtype, device=device),
                "empty": unidev.zeros((0, 3), dtype=dtype, device=device),
                "ints": [unidev.full(4, prime, dtype="int64", device=device)],
                "name": "kept",
            }
        )
    return trees


@pytest.mark.parametrize(("op", "expected"), [("sum", 10), ("min", 2), ("max", 5)])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_values(gpus: list[unidev.Device], op: str, expected: int, dtype: str) -> None:
    trees = trees_of(gpus[:3], dtype)
    before = [unidev.to_numpy(tree["w"]) for tree in trees]
    reduced = unidev.all_reduce(trees, op)
    for tree, device in zip(reduced, gpus, strict=False):
        assert unidev.device_of(tree) is device
        assert unidev.to_numpy(tree["w"]).tolist() == [[expected] * 3] * 2
        assert unidev.to_numpy(tree["zero_d"]) == expected * 10
        assert tree["w"].dtype == dtype
        assert tree["empty"].shape == (0, 3)
        assert unidev.to_numpy(tree["ints"][0]).tolist() == [expected] * 4
        assert tree["tied"] is tree["w"]
        assert tree["name"] == "kept"
    tensors = [tree[name] for tree in [*trees, *reduced] for name in ("w", "zero_d")]
    groups = [tensors[position : position + 2] for position in range(0, len(tensors), 2)]
    assert not any(
        unidev.shares_memory(a, b)
        for p in groups
        for q in groups
        if p is not q
        for a in p
        for b in q
    )
    reduced[0]["w"][...] = 99
    assert unidev.to_numpy(reduced[0]["zero_d"]) == expected * 10
    for tree, values in zip(trees, before, strict=True):
        np.testing.assert_array_equal(unidev.to_numpy(tree["w"]), values)


def test_the_mean_is_weighted_by_rows(gpus: list[unidev.Device]) -> None:
    xs = [
        unidev.full(2, float(prime), device=device)
        for prime, device in zip(PRIMES, gpus, strict=True)
    ]
    assert unidev.to_numpy(unidev.all_reduce(xs, "mean")[3])[0] == pytest.approx(17 / 4)
    weighted = unidev.all_reduce(xs, "mean", weights=[4, 4, 4, 3])
    assert unidev.to_numpy(weighted[1])[0] == pytest.approx((8 + 12 + 20 + 21) / 15)


def test_a_mean_of_float16_does_not_overflow(gpus: list[unidev.Device]) -> None:
    xs = [unidev.full(2, 60000, dtype="float16", device=device) for device in gpus]
    assert unidev.to_numpy(unidev.all_reduce(xs, "mean")[2]).tolist() == [60000, 60000]


def test_in_place_writes_to_the_tensors_themselves(gpus: list[unidev.Device]) -> None:
    trees = trees_of(gpus[:2])
    held = [(tree["w"], tree["zero_d"]) for tree in trees]
    assert unidev.all_reduce(trees, in_place=True) is trees
    for w, zero_d in held:
        assert unidev.to_numpy(w).tolist() == [[5.0] * 3] * 2
        assert unidev.to_numpy(zero_d) == 50


def test_nothing_is_written_if_one_tensor_is_read_only(gpus: list[unidev.Device]) -> None:
    trees = [[np.ones(2)], [np.ones(2)]]
    trees[1][0].flags.writeable = False
    with pytest.raises(unidev.UnsupportedOperation, match=r"trees\[1\]\[0\] cannot be written"):
        unidev.all_reduce(trees, in_place=True)
    assert trees[0][0].tolist() == [1, 1]


def test_one_device_and_one_device_twice(gpus: list[unidev.Device]) -> None:
    x, y = unidev.ones(2, device=gpus[1]), unidev.ones(2, device=gpus[1])
    (alone,) = unidev.all_reduce([x], "mean")
    a, b = unidev.all_reduce([x, y])
    xs = [x, y, alone, a, b]
    assert unidev.to_numpy(a).tolist() == unidev.to_numpy(b).tolist() == [2, 2]
    assert not any(unidev.shares_memory(p, q) for p in xs for q in xs if p is not q)


@pytest.mark.parametrize("count", [2, 3, 4])
def test_copies_do_not_depend_on_the_number_of_tensors(
    gpus: list[unidev.Device], count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packing, "BUCKET_BYTES", 1000)
    monkeypatch.setattr(packing, "LARGE_BYTES", 500)
    sizes = {"small": 50 * [(10,)], "large": [(200,), (125,)]}  # 2,000 bytes: two buckets
    trees = [
        {
            name: [unidev.ones(shape, device=gpu) for shape in shapes]
            for name, shapes in sizes.items()
        }
        for gpu in gpus[:count]
    ]
    with unidev.trace_transfers() as trace:
        unidev.all_reduce(trees)
    assert {transfer.operation for transfer in trace.transfers} == {"all_reduce"}
    assert len(trace.transfers) == 2 * (count - 1) * (2 + 2)


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


def test_a_tree_on_two_devices_is_refused(gpus: list[unidev.Device]) -> None:
    tree = {"a": unidev.ones(2, device=gpus[0]), "b": unidev.ones(2, device=gpus[1])}
    with pytest.raises(
        unidev.DeviceMismatchError, match=r"trees\[1\]\['a'\]: gpu:0.*\['b'\]: gpu:1"
    ):
        unidev.all_reduce([{"a": tree["a"], "b": tree["a"] + 0}, tree])
