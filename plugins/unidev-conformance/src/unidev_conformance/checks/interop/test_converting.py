"""``convert``: to and from each other framework, shared and copied. PYTEST_DONT_REWRITE."""

from __future__ import annotations

import gc
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any

import numpy as np

import unidev
from unidev.tensors.devices import devices_of
from unidev_conformance.kit.inputs import samples
from unidev_conformance.kit.inputs.containers import Point
from unidev_conformance.running.catalog import check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from unidev_conformance.kit.ways import Way
    from unidev_conformance.kit.workbench import Workbench

_NO_SCOPE = nullcontext()
_SMALL = 4_000
"""Elements whose memory an allocator gives out again soon, once it is freed."""
_MANY = 70
"""Conversions after one that is held: as many as no table of the last ones has."""


@check(required=True, over="ways", needs=("interop",))
def test_shared(bench: Workbench, way: Way) -> None:
    """Contiguous memory of the CPU is shared, by its addresses and by writing."""
    bench.require("interop")
    for dtype in way.dtypes():
        if not (way.can_share(dtype) and samples.is_numpy_dtype(dtype)):
            continue
        for copy in (None, False):
            where = f"{way}, {dtype}, copy={copy}"
            x = way.make(samples.counting((3, 5), dtype))
            y = bench.works(way.convert, x, copy=copy)
            way.check_same(x, y, where)
            assert way.shares(x, y), f"{where}: a copy"
            bench.evidence.add("shared", where)
            if not way.gives_immutable:
                way.source.probe.write(x, 1)
                way.check_same(x, y, f"{where}, after writing to the source")
                if way.takes_writes:
                    way.target.probe.write(y, 0)
                    way.target.synchronize(way.target.cpu)
                    way.check_same(x, y, f"{where}, after writing to the result")


@check(required=True, over="ways")
def test_copied(bench: Workbench, way: Way) -> None:
    """``copy=True`` never shares: neither sees what is written to the other."""
    for case in way.drawn():
        where = f"{way}, {case}, copy=True"
        x = way.laid_out(case)
        y = bench.works(way.convert, x, copy=True)
        way.check_same(x, y, where)
        assert not way.shares(x, y), f"{where}: shared"
        content = way.target.probe.read(y)
        is_writable = getattr(getattr(x, "flags", None), "writeable", not way.gives_immutable)
        if is_writable and case.layout == "contiguous":
            way.source.probe.write(x, int(not case.values.any()))
            now = way.target.probe.read(y)
            assert now == content, f"{where}: the result changed with the source"
        if way.takes_writes:
            before = way.source.probe.read(x)
            way.target.probe.write(y, int(not any(content)))
            way.target.synchronize(way.target.cpu)
            now = way.source.probe.read(x)
            assert now == before, f"{where}: the source changed with the result"
        bench.evidence.add("copied", where)


@check(required=True, over="ways")
def test_values(bench: Workbench, way: Way) -> None:
    """Values, dtype and shape stay, to the bit, of any layout."""
    for dtype in way.dtypes():
        if dtype == "bfloat16" or samples.is_numpy_dtype(dtype):
            x = way.make(samples.telling_bits(dtype), dtype)
            _check_values(bench, way, x, f"{way}, {dtype}")
    for case in way.drawn(in_each=True):
        _check_values(bench, way, way.laid_out(case), f"{way}, {case}", case.entered())
    if way.source.spec.framework == "numpy":
        values = samples.counting((3, 5))
        for name, x in (
            ("of the other byte order", values.astype(">f4")),
            ("reversed", values[::-1, ::-1].copy()[::-1, ::-1]),
            ("unaligned", samples.aligned(values, 1)),
        ):
            for copy in (None, True):
                y = bench.works(way.convert, x, copy=copy)
                way.check_same(way.make(values), y, f"{way}, {name}, copy={copy}")
                assert not way.shares(x, y), f"{way}, {name}, copy={copy}: shared"
            bench.expect(unidev.UnsupportedOperation, way.convert, x, copy=False)


def _check_values(bench: Workbench, way: Way, x: Any, where: str, scope: Any = _NO_SCOPE) -> None:
    before = way.source.probe.read(x)
    for copy in (None, True):
        with scope:
            y = bench.works(way.convert, x, copy=copy)
        way.check_same(x, y, f"{where}, copy={copy}")
    assert way.source.probe.read(x) == before, f"{where}: the source changed"


@check(required=True, over="ways", needs=("interop",))
def test_shared_or_refused(bench: Workbench, way: Way) -> None:
    """With ``copy=False`` any layout of any dtype is shared, or refused with the reason.

    Special tensors are as well, such as those whose numbers are not those in their memory.
    """
    bench.require("interop")
    drawn = [(way.laid_out(case), str(case)) for case in way.drawn()]
    for x, said in (*drawn, *_specials(way)):
        where = f"{way}, {said}, copy=False"
        try:
            y = way.convert(x, copy=False)
        except unidev.UnsupportedOperation as error:
            reason = error.reason
        except unidev.InvalidDataError as error:  # such as masked elements
            reason = str(error)
        else:
            reason = ""
        if reason:
            assert len(reason) > 20, f"{where}: the reason is only {reason!r}"
            bench.evidence.add("refused", f"{where}: {reason}")
            continue
        way.check_same(x, y, where)
        assert way.shares(x, y), f"{where}: a copy"


def _specials(way: Way) -> Iterator[tuple[Any, str]]:
    """Those of the source whose dtype the target has, too."""
    there = way.dtypes()
    for name, x in way.source.probe.specials(way.source.cpu).items():
        if any(x.dtype == way.source.dtypes[dtype] for dtype in there):
            yield x, name


@check(required=True, over="ways")
def test_immutable(bench: Workbench, way: Way) -> None:
    """Read-only tensors are not written to through the result of ``convert`` either."""
    values = samples.counting((4, 3))
    x = way.make(values)
    if way.source.spec.framework == "numpy":
        x.flags.writeable = False
    elif not way.gives_immutable:
        return
    where = f"{way}, read-only"
    y = bench.works(way.convert, x)
    way.check_same(x, y, where)
    if way.can_share("float32", is_read_only=True):
        shared = bench.works(way.convert, x, copy=False)
        assert way.shares(x, shared), f"{where}, copy=False: a copy"
    else:
        bench.expect(unidev.UnsupportedOperation, way.convert, x, copy=False)
        assert not way.shares(x, y), f"{where}: shared with a tensor that can be written to"
    if way.takes_writes:
        try:
            way.target.probe.write(y, 7)
            way.target.synchronize(way.target.cpu)
        except ValueError as error:  # NumPy's own: the result is read-only as well
            bench.evidence.add("refused", f"{where}: {error}")
    assert way.source.probe.read(x) == values.tobytes(), f"{where}: the source was written to"


@check(required=True, over="ways")
def test_zero_d_and_empty(bench: Workbench, way: Way) -> None:
    """Tensors of no dimension and of no element keep shape and dtype."""
    for dtype in way.dtypes():
        if not samples.is_numpy_dtype(dtype):
            continue
        for shape in ((), (0,), (2, 0, 3)):
            values = np.ones(shape, dtype)
            for copy in (None, True, False):
                if copy is False and not (values.size == 0 or way.can_share(dtype)):
                    continue
                where = f"{way}, {dtype} {shape}, copy={copy}"
                x = way.make(values)
                way.check_same(x, bench.works(way.convert, x, copy=copy), where)
                for there in devices_of(way.target)[1:] if copy is not False else ():
                    y = bench.works(way.convert, x, device=there, copy=copy)
                    way.check_same(x, y, f"{where}, to {there}", there)


@check(required=True, over="ways")
def test_lifetime(bench: Workbench, way: Way) -> None:
    """Each of the two keeps the memory once the other is dropped, or resized."""
    values, other = samples.counting((_SMALL,)), np.full(_SMALL, -1, np.float32)
    expected = values.tobytes()
    for copy in (None, True):
        where = f"{way}, copy={copy}"
        x = way.make(values)
        y = bench.works(way.convert, x, copy=copy)
        del x
        gc.collect()
        refilled = [way.make(other) for _ in range(50)]
        refilled += [way.convert(way.make(other), copy=copy) for _ in range(_MANY)]
        found = way.target.probe.read(y)
        assert found == expected, f"{where}: changed once the source was dropped"
        x = way.make(values)
        y = way.convert(x, copy=copy)
        del y
        gc.collect()
        refilled += [way.make(other) for _ in range(50)]
        refilled += [way.convert(way.make(other), copy=copy) for _ in range(_MANY)]
        found = way.source.probe.read(x)
        assert found == expected, f"{where}: the source changed once the result was dropped"
        if hasattr(x, "resize_"):  # PyTorch's and Paddle's, which may free what it had
            y = way.convert(x, copy=copy)
            with suppress(RuntimeError):  # refused
                x.resize_([10 * _SMALL])
            refilled += [way.make(other) for _ in range(50)]
            found = way.target.probe.read(y)
            assert found == expected, f"{where}: changed once the source was resized"


@check(required=True, over="ways")
def test_trees(bench: Workbench, way: Way) -> None:
    """Containers are kept, a tensor that occurs twice is one, and the rest passes."""
    x, other = way.make(samples.counting((2, 3))), way.make(samples.counting((4,), "int64"))
    rest = object()
    zeros = [way.make(np.full((), number, "float32")) for number in range(3)]  # of one kind
    tree: dict[str, Any] = {
        "x": [x, other, *zeros], "again": Point(x, rest), "none": None, "name": "a",
    }  # fmt: skip
    for copy in (None, True):
        where = f"{way}, a tree, copy={copy}"
        made = bench.works(way.convert, tree, copy=copy)
        assert list(made) == list(tree), f"{where}: keys {list(made)}"
        assert type(made["x"]) is list, f"{where}: a {type(made['x']).__name__}"
        assert type(made["again"]) is Point, f"{where}: a {type(made['again']).__name__}"
        way.check_same(x, made["x"][0], where)
        for each, y in zip((other, *zeros), made["x"][1:], strict=True):
            way.check_same(each, y, where)
        assert made["again"].x is made["x"][0], f"{where}: one tensor became two"
        assert made["again"].y is rest, f"{where}: an object was changed"
        assert made["none"] is None, f"{where}: None was changed"
        assert made["name"] == "a", f"{where}: a string was changed"
        assert tree["x"][0] is x, f"{where}: the source was changed"


@check(required=True, over="ways")
def test_devices(bench: Workbench, way: Way) -> None:
    """A tensor stays on the device of its name or goes to the one given, and GPUs do not share."""
    values = samples.counting((2, 3))
    theirs = devices_of(way.target)
    for here in devices_of(way.source):
        x = way.make(values, device=here)
        same = [each for each in theirs if (each.kind, each.index) == (here.kind, here.index)]
        if same:
            y = bench.works(way.convert, x)
            way.check_same(x, y, f"{way}, from {here}", same[0])
        else:
            bench.expect(unidev.DeviceNotFoundError, way.convert, x)
        for there in theirs:
            for copy in (None, True):
                with there:  # which does not matter
                    home = same and unidev.device_of(way.convert(x, copy=copy))
                assert home in ([], *same), f"{way}, from {here}, inside {there}: on {home}"
                y = bench.works(way.convert, x, device=there, copy=copy)
                way.check_same(x, y, f"{way}, from {here} to {there}, copy={copy}", there)
            if here.is_simulated or there.is_simulated or here.kind != there.kind:
                bench.expect(unidev.UnsupportedOperation, way.convert, x, device=there, copy=False)
        for there in devices_of(way.source):
            if there is not here:
                own, moved = way.source.name, {"device": there, "copy": False}
                bench.expect(unidev.UnsupportedOperation, unidev.convert, x, own, **moved)


@check(required=True, over="ways", needs=("probe.gradient",))
def test_gradients_cut(bench: Workbench, way: Way) -> None:
    """A tensor with a gradient is converted, and none flows back through the result."""
    if way.source is not bench.backend:
        return
    bench.require("probe.gradient")

    def there_and_back(x: Any) -> Any:
        y = way.convert(x * 1, copy=False if way.can_share("float32") else None)
        return x + unidev.convert(y, way.source.name)

    values = samples.counting((2, 3))
    found = bench.works(way.source.probe.gradient, there_and_back, values, way.source.cpu)
    assert (np.asarray(found) == 1).all(), f"{way}: the gradient is {np.asarray(found).tolist()}"


@check(required=True, over="ways")
def test_errors(bench: Workbench, way: Way) -> None:
    """Invalid conversions raise the error that names the reason."""
    x = way.make(samples.counting((2, 3)))
    bench.expect(unidev.InvalidDataError, way.convert, x, copy="yes")
    bench.expect(unidev.BackendNotFoundError, unidev.convert, x, "no_such_framework")
    bench.expect(unidev.NotATensorError, way.convert, 3)
    bench.expect(unidev.BackendMismatchError, way.convert, x, device=way.source.cpu)
    bench.expect(unidev.DeviceNotFoundError, way.convert, x, device="gpu:63")
    there = frozenset(way.target.dtypes_on(way.target.cpu))
    for dtype in way.source.dtypes_on(way.source.cpu):
        if dtype not in there:
            held = dtype if samples.is_numpy_dtype(dtype) else "float32"
            strange = way.make(samples.counting((2, 3), held), dtype)
            for copy in (None, False, True):
                bench.expect(unidev.UnsupportedDtypeError, way.convert, strange, copy=copy)
            tree = {"x": [1, strange]}
            message = str(bench.expect(unidev.UnsupportedDtypeError, way.convert, tree))
            assert "['x'][1]" in message, f"{way}, a tree: {message!r} does not say where"
