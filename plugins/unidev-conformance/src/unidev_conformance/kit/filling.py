"""Tensors that unidev fills: zeros, ones, one number, or a run of integers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np
from hypothesis import given

import unidev
from unidev_conformance.kit.inputs import drawing, samples, strategies
from unidev_conformance.kit.inputs.strategies import Run, a_few

if TYPE_CHECKING:
    from collections.abc import Callable

    from unidev.device import Device
    from unidev_conformance.kit.inputs.drawing import Drawn
    from unidev_conformance.kit.workbench import Workbench


def check_filled(bench: Workbench, device: Device) -> None:
    """Zeros, ones and others have their values, also in memory that held something else."""
    for case in bench.drawn(device, is_large=device is bench.devices[-1]):
        _check_cleared(bench, case, device)
    _check_numbers(bench, device)
    _check_runs(bench, device)
    _check_made_there(bench, device)


_FROM_HOST_BYTES = 2**20
_ROUNDED = {"float16": -65519.0, "float32": 3.4028235e38, "complex64": complex(1, 3.4028235e38)}
"""Numbers a little beyond the largest of a dtype, which is the nearest to them."""


def _check_made_there(bench: Workbench, device: Device) -> None:
    """For a large fill, the backend uploads no more than ``Backend.full`` may."""
    backend, upload = bench.backend, bench.backend.from_numpy
    sent: list[int] = []

    def from_numpy(array: Any, *rest: Any) -> Any:
        sent.append(array.nbytes)
        return upload(array, *rest)

    makers: dict[str, Callable[..., Any]] = {
        "zeros": unidev.zeros, "ones": unidev.ones, "full": lambda s, **k: unidev.full(s, 2.5, **k),
    }  # fmt: skip
    for name, make in makers.items():
        with mock.patch.object(backend, "from_numpy", from_numpy):
            bench.works(make, (1_000, 1_000), device=device)
        most, where = max(sent, default=0), f"{name} of 4 MB on {device}"
        assert most <= _FROM_HOST_BYTES, f"{where}: {most} bytes of it come from the host"
    for dtype in filter(samples.is_numpy_dtype, bench.dtypes(device)):
        if np.dtype(dtype).itemsize > 4:  # which a framework's defaults may narrow
            made = bench.works(unidev.full, (150, 1_000), 3, dtype=dtype, device=device)
            _check_same(bench, made, 3, dtype, f"full((150, 1000), 3), {dtype}")


def _check_cleared(bench: Workbench, case: Drawn, device: Device) -> None:
    shape = case.values.shape
    options: dict[str, Any] = {"dtype": case.dtype, "device": device}
    one, three = (True, True) if case.dtype == "bool" else (1, 3)
    makers: dict[str, tuple[Callable[[Any], Any], Any]] = {
        "zeros": (lambda _: unidev.zeros(shape, **options), 0),
        "ones": (lambda _: unidev.ones(shape, **options), one),
        "full": (lambda _: unidev.full(shape, three, **options), three),
        "zeros_like": (unidev.zeros_like, 0),
        "ones_like": (unidev.ones_like, one),
    }
    if case.values.nbytes > drawing.MIB:  # of those, what is cleared by a system's new pages
        makers = {name: makers[name] for name in ("zeros", "full")}
    like = case.make(bench.probe, device)
    for name, (make, value) in makers.items():
        # Dropped at once: allocators, and backends that keep blocks, hand its memory out again.
        if not bench.has("probe.write"):
            case.make(bench.probe, device)
        else:
            bench.probe.write(make(like), not value)
        made = make(like)
        expected = strategies.filled(value, case.dtype, case.values.size)
        where = f"{name}, {case.dtype} {shape} on {device}, after a tensor of that size"
        bench.oracle.check_bytes(made, expected, where)


def _check_numbers(bench: Workbench, device: Device) -> None:
    dtypes = bench.dtypes(device)
    known = [name for name in dtypes if samples.is_numpy_dtype(name)]
    floats = [name for name in known if np.dtype(name).kind in "fc"]
    for values in (
        *({name: _limit(name, at) for name in known} for at in (0, 1, -1)),
        dict.fromkeys(floats, -0.0),
        dict.fromkeys({"float32", "float64"}.intersection(known), -(2**100)),
        {name: number for name, number in _ROUNDED.items() if name in known},
    ):
        _check_each(bench, values, device)

    @a_few
    @given(strategies.generators)
    def check_numbers(rng: np.random.Generator) -> None:
        _check_each(bench, {name: strategies.number(rng, name) for name in dtypes}, device)

    check_numbers()


def _check_each(bench: Workbench, values: dict[str, Any], device: Device) -> None:
    for name, number in values.items():
        for shape in ((), (5,)):
            made = unidev.full(shape, number, dtype=name, device=device)
            _check_same(bench, made, number, name, f"full({shape}, {number!r}), {name}")
        made = unidev.array([number, number], dtype=name, device=device)
        _check_same(bench, made, number, name, f"array([{number!r}] * 2), {name}")


def _limit(dtype: str, at: int) -> Any:
    """The least or largest number, or the last that is hard to keep; of floats, NaN first."""
    return samples.telling_bits(dtype)[at].item()


def _check_same(bench: Workbench, made: Any, number: Any, dtype: str, where: str) -> None:
    count = int(np.prod(tuple(made.shape), dtype=int))
    where = f"{where} on {unidev.device_of(made)}"
    assert made.dtype == bench.backend.dtypes[dtype], f"{where}: dtype {made.dtype}"
    found, expected = bench.probe.read(made), strategies.filled(number, dtype, count)
    if number == number:  # noqa: PLR0124  not NaN, of which there are many
        bench.oracle.check_content(found, expected, where)
        return
    for name in ("real", "imag"):
        part, wanted = (getattr(np.frombuffer(each, dtype), name) for each in (found, expected))
        assert np.array_equal(part, wanted, equal_nan=True), f"{where}: the {name} part is {part}"


def _check_runs(bench: Workbench, device: Device) -> None:
    dtypes = [name for name in bench.dtypes(device) if name in ("int32", "int64", "uint64")]

    @a_few
    @given(strategies.generators)
    def check_runs(rng: np.random.Generator) -> None:
        for name in dtypes:
            _check_run(bench, strategies.run(rng, name), name, device)

    check_runs()
    for name in dtypes:
        for start in (2**24 - 1, 2**53 - 1, 2**63 - 4, 2**63):
            if start + 9 <= np.iinfo(name).max:
                _check_run(bench, Run(start, 1, 9), name, device)
        for x in (np.iinfo(name).min - 1, np.iinfo(name).max):
            bench.expect(unidev.InvalidDataError, unidev.arange, x, x + 2, dtype=name)


def _check_run(bench: Workbench, run: Run, dtype: str, device: Device) -> None:
    values = np.array(list(run), dtype)
    given = run.start, run.stop, run.step
    made = bench.works(unidev.arange, *given, dtype=dtype, device=device)
    where = f"arange{given}, {dtype} on {device}"
    assert made.dtype == bench.backend.dtypes[dtype], f"{where}: dtype {made.dtype}"
    bench.oracle.check_device(made, device, where)
    bench.oracle.check_bytes(made, values.tobytes(), where)
