"""Trees of host arrays and tensors: ``device_put`` and ``device_get``. PYTEST_DONT_REWRITE."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

import unidev
from unidev.contract.backend import Extent
from unidev_conformance.kit.inputs.containers import Point
from unidev_conformance.kit.oracle import overlapping_bytes
from unidev_conformance.running.catalog import check

if TYPE_CHECKING:
    from unidev.device import Device
    from unidev_conformance.kit.workbench import Workbench

_TIMES = np.array(["2026-11-28"], "datetime64[D]")
_ALIGNMENT = 64
"""Bytes: JAX, for one, shares memory with host arrays that are aligned so, and only with them."""


@check(required=True, over="devices")
def test_put_host_arrays(bench: Workbench, device: Device) -> None:
    """Host arrays become tensors of the same values on the device, in memory of their own."""
    for case in bench.drawn(device, is_large=False):
        if not case.is_of_numpy:
            continue
        for offset in (0, 4):
            array = _placed(case.values, offset)
            where = f"{case.dtype} {array.shape}, {offset} bytes off, to {device}"
            swapped = array.astype(array.dtype.newbyteorder("S"))  # after one in native order
            tree = {"x": [array], "y": Point(array, "name"), "z": swapped, "times": _TIMES}
            put = bench.works(unidev.device_put, tree, device)
            bench.oracle.check_bytes(put["z"], array.tobytes(), f"{where}, in the other byte order")
            made = put["x"][0]
            assert made is put["y"].x, f"{where}: an array that occurs twice became two tensors"
            assert put["y"].y == "name", f"{where}: a string was changed"
            assert put["times"] is _TIMES, f"{where}: an array of times was changed"
            _check_made(bench, array, made, device, where)


def _placed(values: np.ndarray[Any, Any], offset: int) -> np.ndarray[Any, Any]:
    """A copy of ``values`` that begins ``offset`` bytes after an aligned address."""
    buffer = np.empty(values.nbytes + 2 * _ALIGNMENT, np.uint8)
    start = -buffer.ctypes.data % _ALIGNMENT + offset
    array: np.ndarray[Any, Any] = buffer[start : start + values.nbytes].view(values.dtype)
    array = array.reshape(values.shape)
    array[...] = values
    return array


def _check_made(
    bench: Workbench, array: np.ndarray[Any, Any], made: Any, device: Device, where: str
) -> None:
    expected = array.tobytes()
    bench.oracle.check_device(made, device, where)
    assert tuple(made.shape) == array.shape, f"{where}: shape {tuple(made.shape)}"
    assert made.dtype == bench.backend.dtypes[array.dtype.name], f"{where}: dtype {made.dtype}"
    _overwrite(array)
    bench.oracle.check_bytes(made, expected, f"{where}, once the array was overwritten")
    if device.kind == "cpu" and array.nbytes:
        host = Extent(array.ctypes.data, array.nbytes)
        shared = overlapping_bytes(bench.oracle.storage(made), [host])
        assert not shared, f"{where}: {shared} bytes are the array's"


def _overwrite(array: np.ndarray[Any, Any]) -> None:
    array[...] = 0 if array.any() else 1


@check(required=True, over="all_pairs")
def test_put_dtype(bench: Workbench, source: Device, target: Device) -> None:
    """With ``dtype``, floating-point arrays and tensors have it on the device, and no others."""
    values = np.array([[1.5, -2.0], [0.0, 3.0]], np.float64)
    batch = {"array": values, "tensor": bench.make(values, source), "numbers": np.arange(4)}
    others = {"numbers": "int64"}
    if "complex64" in bench.dtypes(target):
        batch["complex"], others["complex"] = np.array([1j], np.complex64), "complex64"
    (read,) = unidev.prefetch([batch], target, dtype="float32")
    for put in (unidev.device_put(batch, target, dtype="float32"), read):
        for name in ("array", "tensor"):
            where = f"float64 of {source} to float32 on {target}: the {name}"
            bench.oracle.check_device(put[name], target, where)
            bench.oracle.check_bytes(put[name], values.astype(np.float32).tobytes(), where)
        for name, dtype in others.items():
            found = put[name].dtype
            assert found == bench.backend.dtypes[dtype], f"{name} on {target}: {found}"


@check(required=True, over="all_pairs")
def test_put_tensors(bench: Workbench, source: Device, target: Device) -> None:
    """Beside host arrays, tensors that are on the device stay themselves; others are copied."""
    x, where = bench.matrix(source), f"{source} to {target}"
    numbers = np.arange(3, dtype=np.float32)
    put = unidev.device_put([x, {"numbers": numbers}], target)
    bench.oracle.check_device(put[1]["numbers"], target, f"the array, {where}")
    is_host_array = bench.backend.spec.framework == "numpy" and source is unidev.cpu()
    if source is target and not is_host_array:
        assert put[0] is x, f"{where}: a tensor that was there was copied"
        tree = [x, "name"]
        assert unidev.device_put(tree, target) is tree, f"{where}: a tree that was there is new"
    else:
        bench.oracle.check_copy(x, put[0], target, where)
    if bench.has("probe.unbound"):
        bound = bench.works(unidev.device_put, bench.probe.unbound(source), target)
        for other in bench.devices:
            with other:
                bench.oracle.check_device(bound + bound, target, f"{where}, added in {other}")


@check(required=True, over="devices")
def test_get(bench: Workbench, device: Device) -> None:
    """``device_get`` gives new, writable arrays of tensors and of host arrays."""
    for case in bench.drawn(device, is_large=False):
        if not case.is_of_numpy:
            continue
        x, array, owned = case.make(bench.probe, device), np.ones(3), np.ones(3)
        like_an_array = SimpleNamespace(__array_interface__=owned.__array_interface__)
        expected, where = bench.probe.read(x), f"{case.dtype} on {device}"
        tree = {"x": x, "rest": (array, 3), "like": like_an_array, "again": [x, array]}
        got = unidev.device_get(tree)
        again = got["again"][0] is got["x"] and got["again"][1] is got["rest"][0]
        assert again, f"{where}: an array that occurs twice became two"
        assert type(got["x"]) is np.ndarray, f"{where}: a {type(got['x']).__name__}"
        assert got["x"].tobytes() == expected, f"{where}: other values"
        assert got["x"].dtype.name == case.dtype, f"{where}: dtype {got['x'].dtype}"
        assert got["x"].flags.writeable, f"{where}: it cannot be written to"
        _overwrite(got["x"])
        bench.oracle.check_bytes(x, expected, f"{where}, once the array was overwritten")
        got["rest"][0][:] = got["like"][:] = 0
        assert array.all(), f"{where}: the host array beside it is shared"
        assert owned.all(), f"{where}: the memory of an object like an array is shared"
        assert got["rest"][1] == 3, f"{where}: a number was changed"
