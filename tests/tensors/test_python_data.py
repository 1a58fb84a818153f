from __future__ import annotations

import numpy as np
import pytest

import unidev
from unidev.backends.numpy_backend.backend import NumpyBackend
from unidev.system.wording import kind_of
from unidev.tensors.python_data import _range, always_fits, as_numpy, check_fits, checked_number


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        ([1, 2], "int64"),
        (2**63 - 1, "int64"),
        ([True], "bool"),
        ([True, 2], "int64"),
        ([1, 2.5], "float32"),
        (1.5, "float32"),
        ([1j, 2], "complex64"),
        ([], "float32"),
        ([[], []], "float32"),
        (((1,), (2,)), "int64"),
        (np.float16(1), "float16"),
        ([np.float64(1), 2], "float64"),
        ([np.arange(2), np.arange(2)], np.arange(2).dtype.name),
        (np.zeros(2, "c16"), "complex128"),
    ],
)
def test_the_dtype_that_numbers_get(data: object, dtype: str) -> None:
    x = unidev.array(data)
    assert x.dtype == dtype
    np.testing.assert_array_equal(x, np.array(data))


@pytest.mark.parametrize(
    "value", [2**63, -(2**63) - 1, [2**63, -1], [1, 2**64], 10**400, [[2**63]]]
)
def test_ints_beyond_int64_are_an_error_and_no_float(value: object) -> None:
    with pytest.raises(unidev.InvalidDataError, match="int64"):
        unidev.array(value)


def test_an_int_of_any_number_of_digits_is_refused() -> None:
    with pytest.raises(unidev.InvalidDataError, match="int64"):
        unidev.array([10**5000])


def test_lists_are_read_as_the_dtype_asked_for_so_that_nothing_is_lost() -> None:
    assert unidev.array([2**62 + 1, 0.5], dtype="int64")[0] == 2**62 + 1
    assert unidev.array([0.1], dtype="float64")[0] == 0.1
    assert unidev.array([2**63], dtype="uint64")[0] == 2**63


OUT_OF_RANGE = [
    ([300], "int8"),
    ([-1], "uint8"),
    ([1e10], "int32"),
    ([float("nan")], "int64"),
    ([float("inf")], "int64"),
    ([9.3e18], "int64"),
    ([1e39], "float32"),
    ([70000.0], "float16"),
    ([1j], "float32"),
    ([1e39j], "complex64"),
    ([2**63], "int64"),
]


@pytest.mark.parametrize(("values", "dtype"), OUT_OF_RANGE)
def test_a_value_that_the_dtype_cannot_hold_is_an_error_in_lists_and_arrays(values, dtype) -> None:
    with pytest.raises(unidev.InvalidDataError, match=dtype):
        unidev.array(values, dtype=dtype)
    with pytest.raises(unidev.InvalidDataError, match=dtype):
        unidev.array(np.array(values), dtype=dtype)


def test_a_float_that_float32_cannot_hold_is_an_error_and_no_infinity() -> None:
    with pytest.raises(unidev.InvalidDataError, match=r"float32 cannot hold .*1e\+39"):
        unidev.array([1.0, 1e39])


def test_infinity_and_nan_are_floats() -> None:
    x = unidev.array([float("inf"), float("nan"), -0.0])
    assert np.isinf(x[0])
    assert np.isnan(x[1])
    assert np.signbit(x[2])


@pytest.mark.parametrize(
    "data",
    ["abc", b"abc", ["a"], [None], None, {1: 2}, {1}, range(3), [range(3)], object(), [object()],
     memoryview(b"ab"), (i for i in (1, 2)), [{}], unidev, [type], [[1, ["a"]]]],
    ids=kind_of,  # the same in every process, so that several can share the tests
)  # fmt: skip
def test_what_holds_no_numbers_is_refused_by_its_type(data: object) -> None:
    with pytest.raises(unidev.NotATensorError, match="a tensor is made from numbers"):
        unidev.array(data)


def test_the_type_that_is_refused_is_named() -> None:
    with pytest.raises(unidev.NotATensorError, match="not from NoneType"):
        unidev.array([[1.0, None]])


@pytest.mark.parametrize("dtype", ["O", "U3", "S3", "M8[s]", "m8[s]", "i4,f4", "V2"])
def test_arrays_of_what_tensors_do_not_hold_are_refused(dtype: str) -> None:
    with pytest.raises(unidev.UnsupportedDtypeError, match=r"no such dtype.*view\(ml_dtypes"):
        unidev.array(np.zeros(2, dtype))


@pytest.mark.parametrize("data", [[[1, 2], [3]], [1, [2]], [[1.5], 2]])
def test_rows_of_unequal_length_are_refused(data: object) -> None:
    with pytest.raises(unidev.InvalidDataError, match="rows of equal length"):
        unidev.array(data)


def test_a_list_that_contains_itself_is_refused_before_numpy_follows_it() -> None:
    one: list[object] = []
    one.append(one)
    two: list[object] = [1]
    two += [two, two]
    for circular in (one, two):
        with pytest.raises(unidev.InvalidDataError, match="list contains itself"):
            unidev.array(circular)


def test_a_list_that_stands_twice_does_not_contain_itself() -> None:
    row = [1, 2]
    assert unidev.array([row, row]).tolist() == [[1, 2], [1, 2]]


def test_lists_deeper_than_numpy_goes_are_refused() -> None:
    data: list[object] = []
    for _ in range(5000):
        data = [data]
    with pytest.raises(unidev.InvalidDataError, match="deeper than 64"):
        unidev.array(data)


def test_a_masked_array_is_refused_as_numpy_would_drop_the_mask() -> None:
    masked = np.ma.masked_array([1, 2], mask=[True, False])
    for data in (masked, np.ma.masked, [np.ma.masked], [1.0, [masked]]):
        with pytest.raises(unidev.InvalidDataError, match=r"x\.filled"):
            unidev.array(data)


def test_a_list_of_simulated_arrays_is_refused_as_a_list_of_tensors(two_gpus: None) -> None:
    with pytest.raises(unidev.NotATensorError, match="list of numpy tensors"):
        unidev.array([unidev.zeros(2, device="gpu:1")])


def test_numbers_are_read_whatever_numpys_warnings_are_set_to() -> None:
    with np.errstate(all="raise"):
        assert unidev.array([1e-40], dtype="float32").dtype == np.float32


def test_bfloat16_has_a_largest_number_too() -> None:
    assert as_numpy([3.3e38, float("inf")], "bfloat16").dtype == np.float64
    for dtype, data in (("bfloat16", [3.4e38]), ("bfloat16", [2**200]), ("float32", [2**128])):
        with pytest.raises(unidev.InvalidDataError, match=f"{dtype} cannot hold"):
            as_numpy(data, dtype)


@pytest.mark.parametrize(
    ("dtype", "held", "beyond"),
    [
        ("float8_e4m3fn", [448, -448, float("nan")], [449, float("-inf")]),
        ("float8_e5m2", [57344, float("inf")], [1e6]),
        ("float4_e2m1fn", [6, -6], [6.5]),
        ("int4", [-8, 7], [-9, 8]),
        ("uint4", [0, 15], [-1, 16]),
    ],
)
def test_dtypes_that_numpy_lacks_have_a_range(
    dtype: str, held: list[float], beyond: list[float]
) -> None:
    assert as_numpy(held, dtype).tolist() == pytest.approx(held, nan_ok=True)
    for number in beyond:
        with pytest.raises(unidev.InvalidDataError, match=f"{dtype} cannot hold"):
            as_numpy([number], dtype)
        with pytest.raises(unidev.InvalidDataError, match=f"{dtype} cannot hold"):
            checked_number(number, dtype)


NAMES = (*NumpyBackend.dtypes.func(NumpyBackend), "bfloat16")


@pytest.mark.parametrize("source", NAMES)
def test_what_always_fits_does_so_at_both_ends_of_its_range(source: str) -> None:
    kind, *ends = _range(source)
    held = np.array(ends, dtype="float64" if source == "bfloat16" else source)
    for dtype in NAMES:
        if always_fits(source, dtype):
            check_fits(held, dtype)
        else:  # nothing is read on the host needlessly
            with pytest.raises(unidev.InvalidDataError):
                check_fits(held if kind != "f" else np.array([np.nan, *ends]), dtype)
