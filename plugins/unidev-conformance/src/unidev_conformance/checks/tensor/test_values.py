"""The numbers of a seed, and values that a conversion would change. PYTEST_DONT_REWRITE."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

import unidev
from unidev_conformance.kit.inputs.samples import is_numpy_dtype
from unidev_conformance.kit.trees import numbers_in
from unidev_conformance.running.catalog import check

if TYPE_CHECKING:
    from collections.abc import Callable

    from unidev.device import Device
    from unidev_conformance.kit.workbench import Workbench

_TELLING: tuple[float, ...] = (
    0, 1, -1, 127, 128, 300, -129, 2**24 + 1, 2**31, 2.0**40, 2**53 - 1, 2.0**62, 2.0**63,
    1.5, -0.0, 65504, 70000, 4e-24, 3e-8, 1e-40, 1e30, 1e300,
    float("nan"), float("inf"), float("-inf"),
)  # fmt: skip
"""At and beyond the ends of the dtypes' ranges, and small numbers that a conversion may flush."""

_AFTER_SEED_7: dict[str, tuple[list[float], list[float]]] = {
    "float16": ([0.2685546875, 0.46875, 0.9736328125], [0.8515625, 0.18359375, 0.493896484375]),
    "float32": ([0.26863855, 0.46881747, 0.9738699], [0.85149574, 0.18355125, 0.4939997]),
    "float64": (
        [0.46881748695593284, 0.42614583623918467, 0.3629817008336008],
        [-1.2232638292156024, 0.22571301416332154, 0.0962038998303864],
    ),
}
"""What ``rand(3)`` gives, and ``randn(3)`` after it: by NumPy's Philox, whatever the framework."""
_SEEDS = (0, 1, 2**31, 2**32, 2**32 + 1, 2**63 - 1)
_OF_MANY = {"float16": 2904358151, "float32": 3744175070, "float64": 1101052875}
"""The checksums of ``rand((301, 7))`` after those."""


@check(required=True, over="devices")
def test_of_a_seed(bench: Workbench, device: Device) -> None:
    """After ``seed(7)``, ``rand`` and ``randn`` give the numbers that they give everywhere."""
    for dtype, drawn in _AFTER_SEED_7.items():
        if dtype not in bench.dtypes(device):
            continue
        unidev.seed(7)
        for make, numbers in zip((unidev.rand, unidev.randn), drawn, strict=True):
            found = make(3, dtype=dtype, device=device)
            where = f"{make.__name__} of {dtype} on {device} after seed(7)"
            bench.oracle.check_bytes(found, np.array(numbers, dtype).tobytes(), where)
        many = bench.probe.read(unidev.rand((301, 7), dtype=dtype, device=device))
        found_crc, crc = zlib.crc32(many), _OF_MANY[dtype]
        assert found_crc == crc, f"rand((301, 7)) after those: CRC {found_crc}, not {crc}"
        bench.evidence.add("drawn", f"{dtype} on {device}")
    seen = set()
    for seed in _SEEDS:
        unidev.seed(seed)
        seen.add(bench.probe.read(unidev.rand(4, device=device)))
    assert len(seen) == len(_SEEDS), f"seeds of {_SEEDS} give {len(seen)} kinds of numbers"
    for dtype in bench.dtypes(device):
        if dtype in _DIGITS:
            xs = numbers_in(bench, unidev.rand(9_000, dtype=dtype, device=device), dtype)
            assert 0 <= xs.min() <= xs.max() < 1, f"rand of {dtype} on {device}: up to {xs.max()}"


@check(over="devices")
def test_tensors_convert_as_lists_do(bench: Workbench, device: Device) -> None:
    """array(tensor, dtype=...) gives NumPy's numbers, or an error if one would be corrupted."""
    names = [name for name in bench.dtypes(device) if is_numpy_dtype(name)]
    for source in names:
        values = _held_by(source)
        for name in names:
            _check_conversion(bench, values, name, device)
    for name in bench.dtypes(device):
        if name in _DIGITS:
            _check_rounding(bench, name, device)
    bench.evidence.add("converted", f"{len(names)} dtypes to each on {device}")


_DIGITS = {"float16": 11, "bfloat16": 8, "float32": 24}


def _check_rounding(bench: Workbench, name: str, device: Device) -> None:
    """Next to the middle of two numbers: to the nearest, ties to even, by way of float32 or not."""
    rng, digits = np.random.default_rng(11), _DIGITS[name]
    middles = 2 * rng.integers(2 ** (digits - 1), 2**digits, 60) + 1
    for source in ("int32", "int64", "float32", "float64"):
        if source not in bench.dtypes(device) or (name, source) == ("float32", "float32"):
            continue
        if "int" in source:
            most = 3 if name == "float16" else np.iinfo(source).bits - digits - 3
            values = (middles << rng.integers(most + 1, size=60)) + rng.integers(-1, 2, 60)
        else:
            bits = min(2 * digits, (24 if source == "float32" else 53) - digits - 1)
            near = middles + rng.integers(-1, 2, 60) * 2.0**-bits
            values = near * 2.0 ** rng.integers(-9, 4, 60)
        values = values.astype(source)
        exact = values.astype("longdouble")
        allowed = _rounded(exact, digits), _rounded(_rounded(exact, 24), digits)
        for what, given in (("array", values), ("tensor", bench.make(values, device))):
            made = unidev.array(given, dtype=name, device=device)
            found = numbers_in(bench, made, name).astype("longdouble")
            wrong = (found != allowed[0]) & (found != allowed[1])
            where = f"an {what} of {source} to {name} on {device}"
            assert not wrong.any(), (
                f"{where}: {values[wrong]} became {found[wrong]}, not {allowed[0][wrong]}"
            )


def _rounded(values: Any, digits: int) -> Any:
    unit = np.ldexp(np.longdouble(1), np.frexp(values)[1] - digits)
    return np.rint(values / unit) * unit


def _held_by(dtype: str) -> np.ndarray[Any, Any]:
    with np.errstate(all="ignore"):
        converted = [(value, np.array(value).astype(dtype)) for value in _TELLING]
    return np.array([held for value, held in converted if held == value or value != value], dtype)  # noqa: PLR0124  NaN


def _check_conversion(
    bench: Workbench, values: np.ndarray[Any, Any], name: str, device: Device
) -> None:
    with np.errstate(all="ignore"):
        expected = values.astype(name)
    fits = _fits(values, expected)
    where = f"{values.dtype} to {name} on {device}"
    x = unidev.array(bench.make(values[fits], device), dtype=name, device=device)
    assert x.dtype == bench.backend.dtypes[name], f"{where}: dtype {x.dtype}"
    bench.oracle.check_device(x, device, where)
    found = unidev.to_numpy(x)
    wrong = (found != expected[fits]) & ~(np.isnan(found) & np.isnan(expected[fits]))
    assert not wrong.any(), f"{where}: {values[fits][wrong]} became {found[wrong]}"
    for value in values[~fits][::3]:
        x = bench.make(np.array([1, value], values.dtype), device)
        bench.expect(unidev.InvalidDataError, unidev.array, x, dtype=name, device=device)


def _fits(values: np.ndarray[Any, Any], converted: np.ndarray[Any, Any]) -> Any:
    """Which values a conversion may round or truncate, but not corrupt."""
    if converted.dtype.kind in "iu" and values.dtype.kind in "iuf":
        limits = np.iinfo(converted.dtype)
        return np.array([_is_within(value.item(), limits) for value in values], bool)
    if values.dtype.kind == "c" and converted.dtype.kind != "c":
        return np.zeros(values.shape, bool)
    return np.isfinite(converted) | ~np.isfinite(values)


def _is_within(value: float, limits: Any) -> bool:
    return bool(np.isfinite(float(value))) and limits.min <= int(value) <= limits.max


@check(needs=("probe.cut_short",), over="ring")
def test_memory_that_is_cut_short(bench: Workbench, device: Device, target: Device) -> None:
    """A tensor whose memory ends before its last element is refused where it would be read."""
    cut = bench.probe.cut_short(device)
    assert cut, f"the probe cuts no tensor short on {device}: nothing is proved"
    calls: dict[str, Callable[[Any], object]] = {
        "copy_to": lambda x: unidev.copy_to(x, target),
        "copy_to of a list": lambda x: unidev.copy_to([x], target),
        "to_numpy": unidev.to_numpy,
        "array": lambda x: unidev.array(x, device=target),
        "array as int64": lambda x: unidev.array(x, dtype="int64", device=target),
    }
    if target is not device:
        calls["as_in_device"] = lambda x: unidev.as_in_device(x, target)
    for name, x in cut.items():
        for verb, call in calls.items():
            _check_deleted(call, x, f"{verb} of a tensor cut short, {name}, {device} to {target}")
    bench.evidence.add("refused", f"{', '.join(cut)}, {device} to {target}")


def _check_deleted(call: Callable[[Any], object], x: Any, where: str) -> None:
    try:
        call(x)
    except unidev.DeletedTensorError:
        return
    raise AssertionError(f"{where}: nothing is raised, and memory that is gone was read")


@check(profile="train", needs=("probe.deleted", "autograd", "functions"), over="devices")
def test_deleted_tensors_do_not_train(bench: Workbench, device: Device) -> None:
    """Gradients, sgd and functions refuse a tensor whose memory was deleted."""
    x = bench.probe.deleted(device)
    for call in (unidev.value_and_grad(lambda x: x), unidev.nn.functional.relu):
        bench.expect(unidev.DeletedTensorError, call, x)
    ones = bench.make(np.ones(tuple(x.shape), "float32"), device)
    for parameters, gradients in ((x, ones), (ones, x)):
        bench.expect(unidev.DeletedTensorError, unidev.sgd, parameters, gradients, lr=1)
    bench.evidence.add("refused", f"on {device}")
