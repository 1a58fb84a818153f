"""Making tensors, the device they are made on, and queries for it. PYTEST_DONT_REWRITE."""

from __future__ import annotations

import asyncio
import gc
import sys
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import example, given

import unidev
from unidev.contract.backend import Extent
from unidev_conformance.kit.current import (
    ENDS,
    check_ends,
    check_unchanged,
    defaults,
    suspended_within,
)
from unidev_conformance.kit.filling import check_filled
from unidev_conformance.kit.inputs import samples, strategies
from unidev_conformance.kit.inputs.strategies import a_handful
from unidev_conformance.kit.oracle import overlapping_bytes, shown
from unidev_conformance.kit.specials import check_unreadable
from unidev_conformance.kit.storages import check_storages
from unidev_conformance.running.catalog import check

if TYPE_CHECKING:
    from collections.abc import Callable

    from unidev.device import Device
    from unidev_conformance.kit.workbench import Workbench

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
            found = tuple(make(device=device).shape)
            assert found == (2, 3), f"{name} on {device}: shape {found}, not (2, 3)"
    for shape in ((np.int64(2), 3), (2, np.int32(3))):
        size = tuple(bench.works(unidev.zeros, shape, device=device).shape)
        assert size == (2, 3), f"zeros({shape!r}) on {device}: shape {size}"
    for name, make in _LIKES.items():
        x = bench.matrix(device)
        bench.oracle.check_device(make(x), device, f"{name} on {device}")
        for other in bench.devices:
            bench.oracle.check_device(make(x, device=other), other, f"{name} on {other}")
        module = sys.modules.get(bench.backend.spec.framework)
        own: Any = getattr(module, name, getattr(module, "zeros_like", None))
        layouts = {n: bench.probe.views(x)[n] for n in ("transposed", "sliced")}
        layouts |= bench.probe.more_views(bench.make(samples.counting((3, 2, 3, 2)), device))
        for layout, y in layouts.items() if own is not None else ():
            mine, kept = _strides(make(y)), _strides(own(y))
            assert mine == kept, f"{name} a {layout} tensor on {device}: {mine}, not {kept}"
        _check_classes(bench, make, own, device)
        made = make(bench.probe.views(x)["broadcast"])
        held, whole = (
            sum(each.nbytes for each in bench.oracle.storage(made)),
            bench.probe.read(made),
        )
        assert held >= len(whole), f"{name} a broadcast tensor on {device}: all in {held} bytes"
    check_filled(bench, device)


def _check_classes(bench: Workbench, make: Maker, own: Maker | None, device: Device) -> None:
    """Likenesses of subclasses, of sparse and of ragged tensors are of the framework's class."""
    for kind, x in bench.probe.specials(device).items():
        if x.dtype not in bench.backend.dtypes.values():
            continue  # of which the framework may make none
        try:
            made = make(x), make(x, device=bench.devices[-1])
            there = unidev.copy_to(made[0], bench.devices[-1])
        except unidev.UnsupportedOperation:
            continue
        like = x if own is None else own(x)
        found, wanted = [type(y) for y in made], [type(like), type(there)]
        assert found == wanted, f"{make.__name__} {kind} on {device}: {found}, not {wanted}"
        for y, home in zip(made, (device, bench.devices[-1]), strict=True):
            bench.oracle.check_device(y, home, f"{make.__name__} {kind} on {device}")


def _strides(x: Any) -> object:
    """As far as the framework has them."""
    return x.stride() if hasattr(x, "stride") else getattr(x, "strides", None)


@check(required=True, over="devices")
def test_from_another_tensor(bench: Workbench, device: Device) -> None:
    """``array`` of a tensor in another dtype has the same numbers, however many, in new memory."""
    names = [n for n in bench.dtypes(device) if samples.is_numpy_dtype(n) and n != "bool"]
    names.sort(key=lambda name: "iufc".index(np.dtype(name).kind))
    wider = dict(pairwise(names))
    for case in bench.drawn(device, is_large=False):
        if case.dtype not in wider:
            continue
        target, shape = wider[case.dtype], case.values.shape
        values = samples.counting(shape, case.dtype)
        x = bench.make(values, device)
        y = unidev.array(x, dtype=target, device=device)
        where = f"{case.dtype} {shape} as {target} on {device}"
        assert y.dtype == bench.backend.dtypes[target], f"{where}: its dtype is {y.dtype}"
        bench.oracle.check_bytes(y, values.astype(target).tobytes(), where)
        bench.oracle.check_disjoint(x, y, where)
        bench.oracle.check_device(y, device, where)


@check(required=True, over="devices")
def test_from_a_list(bench: Workbench, device: Device) -> None:
    """Lists of floats become float32, of ints the default integer, of bools bool; shapes stay."""
    dtypes, integer = bench.backend.dtypes, bench.backend.default_integer
    largest = int(np.iinfo(integer).max)
    for data, name in (
        ([1.5, -2.0], "float32"), ([1, largest], integer), ([True, False], "bool"),
        ([1j, 2], "complex64"), (2.5j, "complex64"), (True, "bool"),
        ([[1.5], [2.5]], "float32"), (((1, 2), (3, 4)), integer), (1.5, "float32"), (7, integer),
    ):  # fmt: skip
        if name not in bench.dtypes(device):
            bench.expect(unidev.UnsupportedDtypeError, unidev.array, data, device=device)
            continue
        x = unidev.array(data, device=device)
        expected = np.array(data, dtype=name)
        where = f"{data} on {device}"
        assert x.dtype == dtypes[name], f"{where}: dtype {x.dtype}, not {name}"
        assert tuple(x.shape) == expected.shape, f"{where}: shape {tuple(x.shape)}"
        bench.oracle.check_bytes(x, expected.tobytes(), where)
    makers: tuple[tuple[str, Callable[[], Any], str], ...] = (
        ("full", lambda: unidev.full(3, 7, device=device), integer),
        ("full", lambda: unidev.full(3, 7.5, device=device), "float32"),
        ("full", lambda: unidev.full(3, True, device=device), "bool"),
        ("arange", lambda: unidev.arange(3, device=device), integer),
        ("arange", lambda: unidev.arange(0, 3, 0.5, device=device), "float32"),
        ("randn", lambda: unidev.randn(3, device=device), "float32"),
    )
    for name, call, dtype in makers:
        if dtype in bench.dtypes(device):
            found = call().dtype
            assert found == dtypes[dtype], f"{name} on {device}: dtype {found}, not {dtype}"
    bench.expect(unidev.InvalidDataError, unidev.array, [1, largest + 1], device=device)


@check(required=True, over="devices")
def test_from_numpy_without_aliasing(bench: Workbench, device: Device) -> None:
    """A tensor made from a NumPy array shares no memory with it, aligned or not; nor do reads."""
    _check_any_size(bench, device)
    for case in bench.drawn(device, is_large=device is bench.devices[-1], in_each=True):
        if not case.is_of_numpy:
            continue
        x = case.make_laid_out(bench.probe, device)
        back, where = unidev.to_numpy(x), f"{case} on {device}, the array that was read"
        assert type(back) is np.ndarray, f"{where}: a {type(back).__name__}"
        assert back.flags.writeable, f"{where} is read-only"
        assert back.dtype.name == case.dtype, f"{where}: its dtype is {back.dtype}"
        assert back.shape == tuple(x.shape), f"{where}: its shape is {back.shape}"
        assert back.tobytes() == bench.probe.read(x), f"{where} has other values"
        _check_apart(bench, x, back, back, where)
        owner, on_host = case.on_host()
        where = f"a {'read-only ' * case.is_read_only}{case.dtype} array {case.host_layout}"
        _check_apart(bench, unidev.array(on_host, device=device), owner, on_host, where)


def _check_any_size(bench: Workbench, device: Device) -> None:
    names = [name for name in bench.dtypes(device) if samples.is_numpy_dtype(name)]

    @a_handful
    @given(strategies.sizes(names))
    @example(("float32", 1_000_000, samples.ALIGNMENTS[0]))
    @example(("float32", 1_000_000, samples.ALIGNMENTS[1]))
    def check_size(case: tuple[str, int, int]) -> None:
        dtype, size, offset = case
        on_host = samples.aligned(samples.counting((size,), dtype), offset)
        where = f"{size} elements of {dtype} at 64k + {offset} on {device}"
        _check_apart(bench, unidev.array(on_host, device=device), on_host, on_host, where)
        again = unidev.array(on_host, device=device)
        bench.oracle.check_bytes(again, on_host.tobytes(), f"{where}, made of it once more")

    check_size()


def _check_apart(
    bench: Workbench, x: Any, owner: samples.Array, on_host: samples.Array, where: str
) -> None:
    content = on_host.astype(on_host.dtype.newbyteorder("=")).tobytes()
    # Before the tensor is read, lest that fetch it.
    owner[...] = 55 if owner.dtype != bool else ~owner
    bench.oracle.check_bytes(x, content, f"{where}, after writing to the array")
    mine, host = bench.oracle.storage(x), [Extent(owner.ctypes.data, owner.nbytes)]
    shared = overlapping_bytes(mine, host)
    assert not shared, f"{where}: {shared} bytes shared: array {shown(host)}, tensor {shown(mine)}"
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
    """Every dtype that a device carries can be made on it, bit by bit."""
    for device in bench.devices:
        for name in bench.dtypes(device):
            dtype, where = bench.backend.dtypes[name], f"{name} on {device}"
            for make in ("zeros", "ones", "empty"):
                x = getattr(unidev, make)((2, 3), dtype=name, device=device)
                assert x.dtype == dtype, f"{make} of {where}: dtype {x.dtype}"
                bench.oracle.check_device(x, device, f"{make} of {where}")
            if not samples.is_numpy_dtype(name):
                check_unreadable(bench, bench.of_dtype(name, device), where)
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
    before = defaults(bench)
    for name, make in _MAKERS.items():
        bench.oracle.check_device(make(), bench.cpu, f"{name} before the block")
        with device as entered:
            assert entered is device, f"`with {device} as d`: d is {entered!r}"
            bench.oracle.check_device(make(), device, f"{name} inside `with {device}`")
        bench.oracle.check_device(make(), bench.cpu, f"{name} after `with {device}`")
    check_unchanged(bench, before, f"`with {device}`")


@check(required=True, needs=("native_scope",), over="gpus")
def test_scope_is_the_frameworks_too(bench: Workbench, device: Device) -> None:
    """Inside ``with device:`` the framework's own default device is that one, not any other."""
    for other in bench.devices:  # outside, it may be this device too: TensorFlow's first GPU
        with device:
            inside = dict(bench.probe.global_state())
        with other:
            elsewhere = dict(bench.probe.global_state())
        same = inside == elsewhere
        assert same is (other is device), f"the defaults in {device} and {other} agree: {same}"


@check(required=True, over="devices")
def test_scope_restores_after_exception(bench: Workbench, device: Device) -> None:
    """A block left by an exception, by Ctrl-C or as a generator is closed ends, too."""
    outside = defaults(bench)
    for error in (ZeroDivisionError, KeyboardInterrupt, SystemExit):
        check_ends(bench, device, error)
        check_unchanged(bench, outside, f"{error.__name__} in {device}")
    for name, end in ENDS.items():
        suspended = suspended_within(device)
        next(suspended)
        bench.oracle.check_device(unidev.zeros(3), device, f"beside a generator in {device}")
        end([suspended])
        del suspended
        gc.collect()
        where = f"after a generator in {device} was {name}"
        bench.oracle.check_device(unidev.zeros(3), bench.cpu, where)
        check_unchanged(bench, outside, where)


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


@check(over="all_pairs")
def test_scopes_end_in_any_order(bench: Workbench, first: Device, second: Device) -> None:
    """A block that ends before one that was entered later takes nothing with it, leaves nothing."""
    outside = defaults(bench)
    with second:
        alone = defaults(bench)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    where = f"in {second}, entered in {first}, which has ended"
    try:
        bench.oracle.check_device(unidev.zeros(3), second, where)
        check_unchanged(bench, alone, where)
    finally:
        second.__exit__(None, None, None)
    bench.oracle.check_device(unidev.zeros(3), bench.cpu, f"after {first}, {second}")
    check_unchanged(bench, outside, f"after {first}, {second}: what")


@check(over="ring")
def test_scopes_of_tasks(bench: Workbench, first: Device, second: Device) -> None:
    """Two asynchronous tasks are each inside their own block; or the second block is refused.

    Refused where the framework has one default device for all tasks of a thread.
    """
    outside = defaults(bench)
    alone: dict[Device, dict[str, object]] = {}
    for device in (first, second):
        with device:
            alone[device] = defaults(bench)
    refused: list[unidev.ScopeError] = []

    async def task(device: Device) -> None:
        try:
            with device:
                await asyncio.sleep(0)
                where = f"in a task's `with {device}`, beside the tasks' {first} and {second}"
                bench.oracle.check_device(unidev.zeros(3), device, where)
                named = unidev.zeros(3, device=bench.cpu)
                bench.oracle.check_device(named, bench.cpu, f"made there {where}, as asked for,")
                check_unchanged(bench, alone[device], where)
                with bench.cpu:
                    bench.oracle.check_device(unidev.zeros(3), bench.cpu, f"{where}, in another")
                bench.oracle.check_device(unidev.zeros(3), device, f"{where}, after another")
                check_unchanged(bench, alone[device], f"{where}, after another: what")
        except unidev.ScopeError as error:
            refused.append(error)
        else:  # the other may be in its own still
            check_unchanged(bench, outside, f"a task's `with {device}`")
        bench.oracle.check_device(unidev.zeros(3), bench.cpu, f"after a task's `with {device}`")

    async def made(before: dict[str, object]) -> Any:
        check_unchanged(bench, before, "a task that another one created")
        return unidev.zeros(3)

    async def tasks() -> None:
        await asyncio.gather(task(first), task(second))
        with first:
            within = asyncio.ensure_future(made(alone[first]))
            await asyncio.sleep(0)
            later = asyncio.ensure_future(made({}))
        with first:
            in_thread = await asyncio.to_thread(unidev.zeros, 3)
        bench.oracle.check_device(in_thread, bench.cpu, f"in another thread, inside {first}")
        bench.oracle.check_device(await within, first, f"in a task that `with {first}` created")
        bench.oracle.check_device(await later, bench.cpu, f"in one that began after {first}")

    asyncio.run(tasks())
    has_own = bench.has("native_scope")
    assert len(refused) <= has_own, f"`with {second}` in a second task is refused: {refused}"
    check_unchanged(bench, outside, f"a task in {first} or {second}")
    bench.evidence.add("refused", [str(error) for error in refused])


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
            if hasattr(type(x), name):
                result = compute(x)
                bench.oracle.check_device(result, device, f"{name} inside `with {device}`")
                bench.evidence.add("computed", f"{name} on {device}")


_RESULTS: dict[str, Callable[[Any], Any]] = {
    "__add__": lambda x: x + x, "__getitem__": lambda x: x[0, :],
    "copy": lambda x: x.copy(), "reshape": lambda x: x.reshape((-1,)), "T": lambda x: x.T,
    "astype": lambda x: x.astype(x.dtype), "cumsum": lambda x: x.cumsum(0),
}  # fmt: skip
"""Results of operators and methods, if the framework's tensors have them."""


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


@check(needs=("extents",), over="devices")
def test_shares_memory(bench: Workbench, device: Device) -> None:
    """``shares_memory`` is what the extents of two tensors say: of views, copies, empty ones."""
    check_storages(bench, device)
    nothing = bench.make(np.empty((0, 3), "float32"), device)
    assert not unidev.shares_memory(nothing, nothing), f"an empty tensor on {device} shares memory"
    x = bench.make(np.ones((1, 4), "float32"), device)
    empty = bench.probe.views(x)["sliced"]  # [1:, ::2]
    assert not unidev.shares_memory(empty, x), f"an empty view on {device} shares memory"


@check(required=True)
def test_rejects_what_is_no_tensor(bench: Workbench) -> None:
    """Numbers, text, None and the like are refused where a tensor is required, not passed on."""
    things = (3, 2.5, True, None, "text", b"bytes", object(), len, np.float32(1.5), range(3))
    for thing in things:
        for verb in (unidev.copy_to, unidev.as_in_device):
            bench.expect(unidev.NotATensorError, verb, thing, bench.cpu)
        for question in (unidev.device_of, unidev.to_numpy, unidev.zeros_like):
            bench.expect(unidev.NotATensorError, question, thing)
        assert unidev.is_tensor(thing) is False, f"{thing!r} is taken for a tensor"
    nothing: tuple[object, ...] = ([], {}, ())
    for empty in nothing:
        bench.expect(unidev.NotATensorError, unidev.device_of, empty)
