from __future__ import annotations

import numpy as np
import pytest

import unidev
from unidev.backends.loading import load_backend

MAKERS = {
    "zeros": unidev.zeros,
    "ones": unidev.ones,
    "empty": unidev.empty,
    "rand": unidev.rand,
    "randn": unidev.randn,
    "full": lambda shape, **options: unidev.full(shape, 2.5, **options),
}


@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize(
    "shape",
    [True, -1, (2, -1), (2, True), 1.0, "3", None, {3}, (i for i in (2, 3)), ((2,), 3),
     10**30, (0, 10**30), (2**40, 2**40), np.array([2, 3])],
    ids=lambda shape: str(shape).partition(" at ")[0],
)  # fmt: skip
def test_what_is_no_shape_is_refused_and_named(maker, shape: object) -> None:
    with pytest.raises(unidev.InvalidDataError, match="a shape must be a non-negative") as caught:
        maker(shape)
    named = repr(shape)[:30] if type(shape).__module__ == "builtins" else "<numpy.ndarray>"
    assert named in str(caught.value)


@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS)
def test_more_dimensions_than_there_can_be_are_the_frameworks_error(maker) -> None:
    with pytest.raises(unidev.FrameworkError, match="dimension"):
        maker((1,) * 100)


@pytest.mark.parametrize(
    ("value", "dtype"),
    [(1, "int64"), (1.5, "float32"), (True, "bool"), (1j, "complex64"), (np.int8(1), "int8"),
     (np.float64(1), "float64"), (float("nan"), "float32"), (float("-inf"), "float32")],
)  # fmt: skip
def test_full_takes_the_dtype_of_its_number(value: object, dtype: str) -> None:
    x = unidev.full(2, value)
    assert x.dtype == dtype
    np.testing.assert_array_equal(x, [value, value])


@pytest.mark.parametrize(
    ("value", "dtype"),
    [(2**63, None), (1e39, None), (300, "int8"), (-1, "uint8"), (2.5, "int64"), (2, "bool"),
     (float("nan"), "int64"), (float("inf"), "int8"), (1j, "float32"), (1e300, "complex64"),
     (1e300j, "complex64"), ("1", "float32"), (None, None), ([1], None), (np.array(1), None),
     pytest.param(10**400, "float64", id="huge"), pytest.param(10**5000, "complex64", id="vast")],
)  # fmt: skip
def test_full_refuses_a_value_that_its_dtype_cannot_hold(value: object, dtype: str | None) -> None:
    with pytest.raises(unidev.InvalidDataError):
        unidev.full(2, value, dtype=dtype)


def test_array_of_a_tensor_goes_where_a_new_tensor_goes(two_gpus: None) -> None:
    x = unidev.arange(3, device="gpu:1")
    assert unidev.device_of(unidev.array(x)) is unidev.cpu()
    with unidev.gpu(0):
        assert unidev.device_of(unidev.array(x)) is unidev.gpu(0)
    assert unidev.array(x, dtype="float64", device="gpu:1").dtype == np.float64
    assert unidev.device_of(unidev.array(x, device="gpu:1")) is unidev.gpu(1)


def test_a_conversion_that_is_checked_is_recorded_with_its_reading(two_gpus: None) -> None:
    x = unidev.array([1.0, 2.0], device="gpu:1")
    with unidev.trace_transfers() as trace:
        unidev.array(x, dtype="float64", device="gpu:0")  # cannot fail: not read
        unidev.array(x, dtype="float16", device="gpu:0")
    assert [str(each.target) for each in trace.transfers] == ["gpu:0", "cpu:0", "gpu:0"]


def test_array_of_another_frameworks_tensor_on_a_device_says_whose_it_makes(two_gpus) -> None:
    x = unidev.arange(3, device="gpu:1")
    with pytest.raises(
        unidev.BackendMismatchError, match="array keeps a tensor in its own framework"
    ):
        unidev.array(x, device=unidev.Device("torch", "cpu", 0))


@pytest.mark.parametrize(
    ("bounds", "values", "dtype"),
    [
        ((3,), [0, 1, 2], "int64"),
        ((0, 1, 0.5), [0, 0.5], "float32"),
        ((np.int8(2),), [0, 1], "int64"),
        ((np.float16(2),), [0, 1], "float32"),
        ((-(2**63), 2**63, 2**62), [-(2**63), -(2**62), 0, 2**62], "int64"),
    ],
)
def test_arange_counts_as_range_does(bounds, values, dtype: str) -> None:
    x = unidev.arange(*bounds)
    assert x.tolist() == values
    assert x.dtype == dtype
    assert unidev.arange(*bounds, dtype="float64").dtype == np.float64


@pytest.mark.parametrize(
    "bounds",
    [(0, 3, 0), (0, 1, 0.0), (True,), (0, 1, True), (1j,), ("3",), (None,), (2**70,),
     (2**63,), (2**63, 2**63 + 2),
     (0, float("inf")), (float("nan"),), (1e300, 2e300, 1e300), ([1],)],
    ids=str,
)  # fmt: skip
def test_arange_refuses_what_cannot_be_counted(bounds) -> None:
    with pytest.raises(unidev.InvalidDataError):
        unidev.arange(*bounds)


def test_to_numpy_refuses_a_masked_array_and_names_the_remedy() -> None:
    with pytest.raises(unidev.InvalidDataError, match=r"MaskedArray.*x\.filled"):
        unidev.to_numpy(np.ma.masked_array([1, 2], mask=[True, False]))


def test_to_numpy_of_a_container_is_refused() -> None:
    with pytest.raises(unidev.NotATensorError, match=r"dict.*device_get"):
        unidev.to_numpy({"x": unidev.zeros(1)})


def test_a_framework_that_fails_is_translated(monkeypatch) -> None:
    def fails(self, *rest):
        raise ValueError("bad luck")

    for name in ("zeros", "from_numpy", "to_numpy"):
        monkeypatch.setattr(type(load_backend("numpy")), name, fails)
    for call in (
        lambda: unidev.zeros(3),
        lambda: unidev.array([1]),
        lambda: unidev.to_numpy(np.zeros(3)),
        lambda: unidev.zeros_like(np.zeros(3)),
    ):
        with pytest.raises(unidev.FrameworkError, match=r"numpy failed while .*bad luck"):
            call()
