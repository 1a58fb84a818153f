from __future__ import annotations

import random
import threading

import numpy as np
import pytest
from turns import in_threads

import unidev
from unidev.tensors.generator import draw


def test_seeding_leaves_numpys_and_pythons_generators_alone() -> None:
    before = random.getstate(), np.random.get_state(legacy=True)[1].tobytes()
    unidev.seed(7)
    unidev.rand(10)
    assert (random.getstate(), np.random.get_state(legacy=True)[1].tobytes()) == before


@pytest.mark.parametrize("n", [True, -1, 1.0, "1", None, [1]])
def test_what_is_no_seed_is_refused_and_named(n: object) -> None:
    with pytest.raises(unidev.InvalidDataError, match="seed must be a non-negative") as caught:
        unidev.seed(n)  # type: ignore[arg-type]
    assert repr(n) in str(caught.value)


def test_numpys_ints_are_seeds() -> None:
    unidev.seed(np.uint8(5))  # type: ignore[arg-type]
    first = unidev.rand(3).tolist()
    unidev.seed(5)
    assert unidev.rand(3).tolist() == first


@pytest.mark.parametrize(("dtype", "bits"), [("float16", 11), ("bfloat16", 8)])
def test_uniform_numbers_stay_below_one_after_rounding_to_few_bits(dtype: str, bits: int) -> None:
    unidev.seed(0)
    drawn = draw("random", (200_000,), dtype)
    assert drawn.max() == 1 - 2.0**-bits
    assert drawn.min() >= 0
    if dtype == "float16":
        assert drawn.astype(dtype).max() < 1


@pytest.mark.parametrize("dtype", ["int64", "bool", "complex64"])
def test_random_numbers_of_other_dtypes_are_refused(dtype: str) -> None:
    with pytest.raises(unidev.UnsupportedDtypeError, match=f"float64, not '{dtype}'"):
        unidev.randn(3, dtype=dtype)


def test_threads_that_draw_at_once_draw_different_numbers() -> None:
    unidev.seed(0)
    start = threading.Barrier(8)
    drawn: list[float] = []

    def work() -> None:
        start.wait()
        for _ in range(50):
            drawn.extend(unidev.rand(8, dtype="float64").tolist())

    in_threads(lambda _: work(), range(8))
    assert len(set(drawn)) == 8 * 50 * 8
