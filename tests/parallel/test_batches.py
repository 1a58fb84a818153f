"""``split_batch`` and ``gather``: the sizes of shards, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import unidev
from unidev.parallel.devices.batches import shares


@pytest.mark.parametrize(
    ("rows", "count", "weights", "expected"),
    [
        (31, 8, None, [4, 4, 4, 4, 4, 4, 4, 3]),
        (4, 4, None, [1, 1, 1, 1]),
        (10, 3, [1, 1, 2], [3, 2, 5]),
        (10, 3, [0.7, 0.2, 0.1], [7, 2, 1]),
        (7, 2, [1e-9, 1], [0, 7]),
        (3, 4, None, [1, 1, 1, 0]),
    ],
)
def test_shares(rows: int, count: int, weights: list[float] | None, expected: list[int]) -> None:
    assert shares(rows, count, weights) == expected


def refused_batches() -> list[Any]:
    x, y = np.zeros((3, 2), np.float32), np.zeros(4)
    cpu = ["cpu", "cpu"]
    return [
        ({"x": x, "y": [y]}, cpu, None, unidev.InvalidDataError, r"\['x'\]: 3.*\['y'\]\[0\]: 4"),
        ([x, np.zeros(())], cpu, None, unidev.InvalidDataError, r"batch\[1\] has no dimension"),
        (x, cpu * 2, None, unidev.InvalidDataError, r"3 rows over 4.*\(number 3\).*1, 1, 1, 0"),
        (x, cpu, [1], unidev.InvalidDataError, "2 positive numbers, one for each device"),
        (x, cpu, [1, 0], unidev.InvalidDataError, r"not \[1, 0\]"),
        (x, cpu, [1, float("nan")], unidev.InvalidDataError, "positive numbers"),
        (x, cpu, [1, "2"], unidev.InvalidDataError, "positive numbers"),
        (x, cpu, {1, 2}, unidev.InvalidDataError, "positive numbers"),
        (x, [], None, unidev.DeviceSpecError, "at least one device"),
        (x, "cpu", None, unidev.DeviceSpecError, "a list"),
        (x, ["gpu:7"], None, unidev.DeviceNotFoundError, "gpu:7"),
        (x, [unidev.Device("torch", "cpu", 0)], None, unidev.BackendMismatchError, "torch"),
        ({"n": 3}, cpu, None, unidev.NotATensorError, "no tensors"),
        ((x for _ in "12"), cpu, None, unidev.UnsupportedContainerError, "generator"),
    ]  # fmt: skip


@pytest.mark.parametrize(("batch", "devices", "weights", "error", "message"), refused_batches())
def test_split_refuses(
    batch: Any, devices: Any, weights: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        unidev.split_batch(batch, devices, weights=weights)


def refused_shards() -> list[Any]:
    x = np.zeros((3, 2), np.float32)
    return [
        (
            [x, x[:, :1]],
            unidev.InvalidDataError,
            r"shards\[1\] is .*\(3, 1\).*shards\[0\].*\(3, 2\)",
        ),
        ([x, x.astype(int)], unidev.InvalidDataError, "int64.*float32"),
        ([x[0, 0:1].reshape(()), x], unidev.InvalidDataError, r"shards\[0\] has .*all_reduce"),
        ([{"a": x}, {"b": x}], unidev.InvalidDataError, r"\['a'\] in a dict.*\['b'\] in a dict"),
        ([[x], (x,)], unidev.InvalidDataError, r"\[0\] in a list.*\[0\] in a tuple"),
        ([[x, x[:]], [x]], unidev.InvalidDataError, "only 1 tensor"),
        ([], unidev.UnsupportedContainerError, "empty list"),
        ({"a": x}, unidev.UnsupportedContainerError, "not a dict"),
        ((x for _ in range(2)), unidev.UnsupportedContainerError, "not a generator"),
    ]


@pytest.mark.parametrize(("shards", "error", "message"), refused_shards())
def test_gather_refuses(shards: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        unidev.gather(shards, "cpu")
