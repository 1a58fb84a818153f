"""Making tensors, the device they are made on, and queries for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import unidev
from unidev.conformance.kit import samples
from unidev.conformance.kit.oracle import overlapping_bytes, shown
from unidev.conformance.running.catalog import check
from unidev.contract.backend import Extent

if TYPE_CHECKING:
    from collections.abc import Callable

    from unidev.conformance.kit.workbench import Workbench
    from unidev.contract.device import Device

    Maker = Callable[..., Any]

_MAKERS: dict[str, Maker] = {
    "array": lambda **where: unidev.array([[1.0, 2.0]], **where),
    "zeros": lambda **where: unidev.zeros((2, 3), **where),
    "ones": lambda **where: unidev.ones((2, 3), **where),
    "full": lambda **where: unidev.full((2, 3), 2.5, **where),
    "empty": lambda **where: unidev.empty((2, 3), **where),
    "arange": lambda **where: unidev.arange(5, **where),
    "rand": lambda **where: unidev.rand((2, 3), **where),
    "randn": lambda **where: unidev.randn((2, 3), **where),
}
_LIKES: dict[str, Maker] = {
    "zeros_like": unidev.zeros_like, "ones_like": unidev.ones_like, "empty_like": unidev.empty_like,
}  # fmt: skip


@check(required=True, over="devices")
def test_on_each_device(bench: Workbench, device: Device) -> None:
    """Functions that make a tensor make it on the requested device, with the right values."""
    for name, make in _MAKERS.items():
        bench.oracle.check_device(make(device=device), device, f"{name} on {device}")
        if name not in ("arange", "array"):
            assert tuple(make(device=device).shape) == (2, 3), f"{name} on {device}: its shape"
    for name, make in _LIKES.items():
        x = bench.matrix(device)
        bench.oracle.check_device(make(x), device, f"{name} on {device}")
        for other in bench.devices:
            bench.oracle.check_device(make(x, device=other), other, f"{name} on {other}")
    _check_filled(bench, device)


def _check_filled(bench: Workbench, device: Device) -> None:
    for made, value in (
        (unidev.zeros((2, 3), device=device), 0),
        (unidev.ones((2, 3), device=device), 1),
        (unidev.full((2, 3), 2.5, device=device), 2.5),
        (unidev.ones_like(bench.matrix(device)), 1),
    ):
        expected = np.full((2, 3), value, dtype="float32").tobytes()
        bench.oracle.check_bytes(made, expected, f"filled with {value} on {device}")
    numbers = np.arange(5).tobytes()
    bench.oracle.check_bytes(unidev.arange(5, device=device), numbers, f"arange(5) on {device}")


@check(required=True, over="devices")
def test_from_a_list(bench: Workbench, device: Device) -> None:
    """Lists of floats become float32, of ints int64, of bools bool, and keep their shape."""
    dtypes = bench.backend.dtypes
    for data, name in (
        ([1.5, -2.0], "float32"), ([1, 2**53 + 1], "int64"), ([True, False], "bool"),
        ([[1.5], [2.5]], "float32"), (((1, 2), (3, 4)), "int64"), (1.5, "float32"),
    ):  # fmt: skip
        if name not in dtypes:
            bench.expect(unidev.UnsupportedDtypeError, unidev.array, data, device=device)
            continue
        x = unidev.array(data, device=device)
        expected = np.array(data, dtype=name)
        where = f"{data} on {device}"
        assert x.dtype == dtypes[name], f"{where}: dtype {x.dtype}, not {name}"
        assert tuple(x.shape) == expected.shape, f"{where}: shape {tuple(x.shape)}"
        bench.oracle.check_bytes(x, expected.tobytes(), where)


@check(required=True, over="devices")
def test_from_numpy_without_aliasing(bench: Workbench, device: Device) -> None:
    """A tensor made from a NumPy array shares no memory with it, aligned or not; nor do reads."""
    for size in samples.SIZES:
        for offset in samples.ALIGNMENTS:
            on_host = samples.aligned(samples.counting((size,)), offset)
            x = unidev.array(on_host, device=device)
            where = f"{size} elements at 64k + {offset} on {device}"
            _check_apart(bench, x, on_host, where)
            _check_apart(bench, x, unidev.to_numpy(x), f"{where}, the array that was read")
    for name, array in (
        ("transposed", samples.counting((3, 4)).T),
        ("broadcast", np.broadcast_to(samples.counting((4,)), (3, 4))),
        ("reversed", samples.counting((4,))[::-1]),
        ("big-endian", samples.counting((4,)).astype(">f4")),
    ):
        expected = np.array(array, dtype="float32", order="C").tobytes()
        x = unidev.array(array, device=device)
        bench.oracle.check_bytes(x, expected, f"{name} array on {device}")


def _check_apart(bench: Workbench, x: Any, on_host: samples.Array, where: str) -> None:
    content = on_host.tobytes()
    bench.oracle.check_bytes(x, content, where)
    mine, host = bench.oracle.storage(x), [Extent(on_host.ctypes.data, on_host.nbytes)]
    shared = overlapping_bytes(mine, host)
    assert not shared, f"{where}: {shared} bytes shared: array {shown(host)}, tensor {shown(mine)}"
    on_host[...] = 55
    bench.oracle.check_bytes(x, content, f"{where}, after writing to the array")
    bench.evidence.add("extents", [shown(host), shown(mine)])


@check(over="devices")
def test_zero_d(bench: Workbench, device: Device) -> None:
    """Zero-dimensional tensors can be made, and read back."""
    for name, x in (
        ("array", unidev.array(1.5, device=device)),
        ("array of numpy", unidev.array(np.array(1.5, "float32"), device=device)),
        ("full", unidev.full((), 1.5, device=device)),
    ):
        assert tuple(x.shape) == (), f"{name} on {device}: shape {tuple(x.shape)}"
        bench.oracle.check_device(x, device, f"zero-d {name}")
        back = unidev.to_numpy(x)
        assert back.shape == (), f"{name} on {device}: read back with shape {back.shape}"
        assert back == 1.5, f"{name} on {device}: {back}"


@check(over="devices")
def test_zero_size(bench: Workbench, device: Device) -> None:
    """Empty tensors can be made, and keep their shape."""
    for shape in ((0,), (0, 3), (2, 0)):
        for name, x in (
            ("zeros", unidev.zeros(shape, device=device)),
            ("empty", unidev.empty(shape, device=device)),
            ("array", unidev.array(np.empty(shape, "float32"), device=device)),
        ):
            assert tuple(x.shape) == shape, f"{name}{shape} on {device}: {tuple(x.shape)}"
            back = unidev.to_numpy(x)
            assert back.shape == shape, f"{name}{shape} on {device} is read as {back.shape}"
            bench.oracle.check_device(x, device, f"{name}{shape}")


@check()
def test_each_dtype_on_each_device(bench: Workbench) -> None:
    """Every dtype of the backend can be made on every device, bit by bit."""
    for device in bench.devices:
        for name, dtype in bench.backend.dtypes.items():
            where = f"{name} on {device}"
            for make in ("zeros", "ones", "empty"):
                x = getattr(unidev, make)((2, 3), dtype=name, device=device)
                assert x.dtype == dtype, f"{make} of {where}: dtype {x.dtype}"
                bench.oracle.check_device(x, device, f"{make} of {where}")
            if not samples.is_numpy_dtype(name):
                continue  # nothing to compare bits with: the group `copy` checks its copies
            values = samples.telling_bits(name)
            x = unidev.array(values, device=device)
            assert x.dtype == dtype, f"array of {where}: dtype {x.dtype}"
            bench.oracle.check_bytes(x, values.tobytes(), f"array of {where}")
            ones = np.ones((2, 3), dtype=name)
            made = unidev.ones((2, 3), dtype=name, device=device)
            bench.oracle.check_bytes(made, ones.tobytes(), f"ones of {where}")
            back = unidev.to_numpy(x)
            assert back.dtype == values.dtype, f"{where} is read back as {back.dtype}"
            assert back.tobytes() == values.tobytes(), f"{where} is read back as {back}"
    bench.evidence.add("dtypes", list(bench.backend.dtypes))


@check(required=True, over="devices")
def test_scope_restores(bench: Workbench, device: Device) -> None:
    """New tensors land on the device of ``with device:``, and after it where they did before."""
    before = dict(bench.probe.global_state())
    for name, make in _MAKERS.items():
        bench.oracle.check_device(make(), bench.cpu, f"{name} before the block")
        with device as entered:
            assert entered is device, f"`with {device} as d`: d is {entered!r}"
            bench.oracle.check_device(make(), device, f"{name} inside `with {device}`")
        bench.oracle.check_device(make(), bench.cpu, f"{name} after `with {device}`")
    after = dict(bench.probe.global_state())
    changed = [key for key in before if after.get(key) != before[key] and "random" not in key]
    assert not changed, f"`with {device}` has changed the framework's {changed}"


@check(required=True, over="devices")
def test_scope_restores_after_exception(bench: Workbench, device: Device) -> None:
    """A block left by an exception ends too, and the exception propagates."""
    bench.expect(ZeroDivisionError, _fail_within, device)
    bench.oracle.check_device(unidev.zeros(3), bench.cpu, f"after an exception in {device}")


def _fail_within(device: Device) -> None:
    with device:
        unidev.zeros(3)
        raise ZeroDivisionError("as a user's own code may, within the scope")


@check(over="all_pairs")
def test_scopes_nest(bench: Workbench, outer: Device, inner: Device) -> None:
    """The inner block applies while it lasts, then the outer one, even for the same device."""
    with outer:
        with inner:
            bench.oracle.check_device(unidev.zeros(3), inner, f"{inner} within {outer}")
            with outer:
                bench.oracle.check_device(unidev.zeros(3), outer, f"{outer} in {inner} again")
            bench.oracle.check_device(unidev.zeros(3), inner, f"back in {inner}")
        bench.oracle.check_device(unidev.zeros(3), outer, f"back in {outer}")
        with unidev.use_backend(bench.backend.name):
            bench.works(unidev.zeros, 3)
        bench.oracle.check_device(unidev.zeros(3), outer, f"{outer} after use_backend")
    bench.oracle.check_device(unidev.zeros(3), bench.cpu, "after both blocks")


@check(required=True, over="devices")
def test_device_of_tensor_view_and_result(bench: Workbench, device: Device) -> None:
    """A tensor, a variable, a view, and a result inside ``with device:`` report their device."""
    x = bench.matrix(device)
    bench.oracle.check_device(x, device, f"what the probe made on {device}")
    for name, view in bench.probe.views(x).items():
        bench.oracle.check_device(view, device, f"{name} view on {device}")
    for name, special in bench.probe.specials(device).items():
        bench.oracle.check_device(special, device, f"{name} on {device}")
    with device:
        for name, compute in _RESULTS.items():
            if hasattr(type(x), f"__{name}__"):
                result = compute(x)
                bench.oracle.check_device(result, device, f"{name} inside `with {device}`")
                bench.evidence.add("computed", f"{name} on {device}")


_RESULTS: dict[str, Callable[[Any], Any]] = {"add": lambda x: x + x, "getitem": lambda x: x[0]}
"""Results of operators, if the framework's tensors have the operator."""


@check(required=True, over="devices")
def test_same_device_true_false_mixed(bench: Workbench, device: Device) -> None:
    """``same_device`` is true for one device, false for two, even of one kind; also in lists."""
    x, y = bench.matrix(device), bench.matrix(device)
    assert unidev.same_device(x, y) is True, f"two tensors on {device} are reported apart"
    assert unidev.same_device([x, {"y": y}], x) is True, f"nested, on {device}: reported apart"
    assert unidev.device_of([x, {"y": y}]) is device, f"the list's device is not {device}"
    for other in bench.devices:
        if other is device:
            continue
        z = bench.matrix(other)
        for mixed in ((x, z), ([x, z],), ({"x": x}, [y, (z,)])):
            found = unidev.same_device(*mixed)
            assert found is False, f"tensors on {device} and {other} are reported as together"
        bench.evidence.add("apart", f"{device}, {other}")


@check(required=True)
def test_rejects_what_is_no_tensor(bench: Workbench) -> None:
    """Numbers, text, None and the like are refused where a tensor is required, not passed on."""
    things = (3, 2.5, True, None, "text", b"bytes", object(), len, np.float32(1.5), range(3))
    for thing in things:
        for verb in (unidev.copy_to, unidev.as_in_device):
            bench.expect(unidev.NotATensorError, verb, thing, bench.cpu)
        for question in (unidev.device_of, unidev.to_numpy, unidev.zeros_like):
            bench.expect(unidev.NotATensorError, question, thing)
    nothing: tuple[object, ...] = ([], {}, ())
    for empty in nothing:
        bench.expect(unidev.NotATensorError, unidev.device_of, empty)
