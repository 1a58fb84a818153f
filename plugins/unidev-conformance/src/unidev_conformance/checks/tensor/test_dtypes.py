"""Dtypes: how they are spelt, and those that NumPy and files lack. PYTEST_DONT_REWRITE."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import unidev
from unidev.contract.dtypes import NARROW, narrow_name
from unidev_conformance.kit.inputs import samples
from unidev_conformance.kit.models.stored_models import a_path
from unidev_conformance.running.catalog import check

if TYPE_CHECKING:
    from collections.abc import Callable

    from unidev.device import Device
    from unidev_conformance.kit.workbench import Workbench


_REFUSALS = (unidev.UnsupportedDtypeError, unidev.InvalidDataError, unidev.FrameworkError)


@check(required=True)
def test_spellings(bench: Workbench) -> None:
    """A dtype may be its name, NumPy's dtype or type, or a spelling of the framework's own."""
    further = bench.probe.dtype_spellings()
    for name in bench.dtypes(bench.cpu):
        own = bench.backend.dtypes[name]
        spellings = [name, own, *further.get(name, ())]
        if samples.is_numpy_dtype(name):
            spellings += [np.dtype(name), np.dtype(name).type]
        for spelling in spellings:
            made = bench.works(unidev.zeros, 3, dtype=spelling)
            assert made.dtype == own, f"zeros of {spelling!r}: dtype {made.dtype}, not {own}"
        bench.evidence.add("spelt", f"{name}: {', '.join(map(repr, spellings[1:]))}")


@check(over="devices")
def test_narrow(bench: Workbench, device: Device) -> None:
    """Tensors of float8 and int4 are made, read, converted and saved, or refused by name.

    What they cannot hold is refused; the group ``copy`` has their copies.
    """
    specials = bench.probe.specials(device).values()
    found = {name: x for x in specials if (name := narrow_name(x.dtype)) is not None}
    if not found:
        bench.not_applicable("the probe's special tensors have no narrow dtype")
    for name, x in found.items():
        for verb, make in _makers(bench, x, device).items():
            _check_made_or_refused(bench, name, f"{verb} of {name} on {device}", make, x.dtype)
        _check_read(bench, name, x, device)
        _check_range(bench, name, x.dtype, device)


def _makers(bench: Workbench, x: Any, device: Device) -> dict[str, Callable[[], Any]]:
    makers: dict[str, Callable[[], Any]] = {
        "zeros": lambda: unidev.zeros(3, dtype=x.dtype, device=device),
        "full": lambda: unidev.full(3, 1, dtype=x.dtype, device=device),
        "zeros_like": lambda: unidev.zeros_like(x),
        "array": lambda: unidev.array([0, 1], dtype=x.dtype, device=device),
        "array of a tensor": lambda: unidev.array(x, device=device),
        "rand": lambda: unidev.rand(3, dtype=x.dtype, device=device),
    }
    if bench.has("models") and bench.backend.models.takes_containers:
        makers["a checkpoint"] = lambda: _saved_and_loaded(x)
    return makers


def _saved_and_loaded(x: Any) -> Any:
    with a_path() as path:
        again = unidev.zeros_like(x)
        unidev.save_parameters({"x": x}, path)
        unidev.load_parameters({"x": again}, path)
        return again


def _check_made_or_refused(
    bench: Workbench, name: str, where: str, make: Callable[[], Any], dtype: Any
) -> None:
    made, refusal = _made_or_refusal(make)
    if refusal is None:
        assert made.dtype == dtype, f"{where}: its dtype is {made.dtype}"
    else:
        _check_named(bench, name, where, refusal)


def _check_read(bench: Workbench, name: str, x: Any, device: Device) -> None:
    where = f"{name} on {device}, read by to_numpy"
    found, refusal = _made_or_refusal(lambda: unidev.to_numpy(x))
    if refusal is None:
        assert found.dtype.name == name, f"{where}: its dtype is {found.dtype}"
        bench.oracle.check_content(found.tobytes(), bench.probe.read(x), where)
    else:
        _check_named(bench, name, where, refusal)


def _made_or_refusal(make: Callable[[], Any]) -> tuple[Any, Exception | None]:
    try:
        return make(), None
    except _REFUSALS as refusal:
        return None, refusal


def _check_named(bench: Workbench, name: str, where: str, refusal: Exception) -> None:
    said = str(refusal).lower().replace("_", "")  # PyTorch's kernels call it Float8E4m3fn
    assert name.replace("_", "") in said, f"{where}: the refusal does not name it: {refusal}"
    bench.evidence.add("refused", f"{where}: {refusal}")


def _check_range(bench: Workbench, name: str, dtype: Any, device: Device) -> None:
    largest = NARROW[name].largest
    assert largest is not None, f"the largest {name} is not known"
    beyond = 2 * largest + 2
    wide = unidev.full(3, beyond, device=device)
    for verb, make in {
        "array": lambda: unidev.array([1.0, beyond], dtype=dtype, device=device),
        "full": lambda: unidev.full(3, beyond, dtype=dtype, device=device),
        "array of a tensor": lambda: unidev.array(wide, dtype=dtype, device=device),
    }.items():
        where = f"{verb} of {beyond} as {name} on {device}"
        made, refusal = _made_or_refusal(make)
        assert refusal is not None, f"{where}: it became {bench.probe.read(made)!r}"
        _check_named(bench, name, where, refusal)
