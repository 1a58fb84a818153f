"""``copy_to``: new memory and the same bits, on the requested device. PYTEST_DONT_REWRITE."""

from __future__ import annotations

import itertools
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import example, given

import unidev
from unidev_conformance.kit.inputs import samples, strategies
from unidev_conformance.kit.inputs.drawing import CONTIGUOUS
from unidev_conformance.kit.inputs.strategies import a_handful
from unidev_conformance.kit.specials import check_references, check_specials
from unidev_conformance.running.catalog import check

if TYPE_CHECKING:
    from unidev.device import Device
    from unidev_conformance.kit.workbench import Workbench


@check(required=True)
def test_values_bit_exact(bench: Workbench) -> None:
    """Dtype and every bit are kept: NaN payloads, -0.0, subnormals, infinities, random bits."""
    for source, target in bench.all_pairs():
        for dtype in bench.dtypes(source, target):
            x = bench.of_dtype(dtype, source)
            content = _made_exactly(bench, x, dtype)
            y = unidev.copy_to(x, target)
            bench.oracle.check_kind(x, y, f"{dtype}, {source} to {target}")
            bench.oracle.check_bytes(y, content, f"{dtype}, {source} to {target}")
            bench.evidence.add("bytes", f"{dtype}: {content.hex(' ', 4)}")
    for source, target in bench.ring():
        _check_any_bits(bench, source, target)


def _made_exactly(bench: Workbench, x: Any, dtype: str) -> bytes:
    content = bench.probe.read(x)
    assert x.dtype == bench.backend.dtypes[dtype], f"the probe made {x.dtype}, not {dtype}"
    if samples.is_numpy_dtype(dtype):
        expected = samples.telling_bits(dtype).tobytes()
        assert content == expected, f"the probe made {dtype} with other bits: nothing is proved"
    return content


def _check_any_bits(bench: Workbench, source: Device, target: Device) -> None:
    @a_handful
    @given(strategies.generators)
    def check_bits(rng: np.random.Generator) -> None:
        bits = rng.bytes(4 * strategies.size(rng, 16))
        x = bench.make(np.frombuffer(bits, dtype="float32"), source)
        y = unidev.copy_to(x, target)
        bench.oracle.check_bytes(y, bits, f"float32, {source} to {target}")

    check_bits()


@check(required=True, over="devices")
def test_disjoint_on_the_same_device(bench: Workbench, device: Device) -> None:
    """On one device, copies of any size, dtype and layout share no byte with their sources."""
    _check_drawn(bench, device, device)


@check(required=True, over="pairs")
def test_disjoint_across_devices(bench: Workbench, source: Device, target: Device) -> None:
    """Between any two devices no byte is shared: the copy has more than a new label."""
    _check_drawn(bench, source, target)


def _check_drawn(bench: Workbench, source: Device, target: Device) -> None:
    is_near = (source, target) in bench.ring()
    for case in bench.drawn(source, target, is_large=is_near, in_each=is_near):
        x = case.make_laid_out(bench.probe, source)
        where, before = f"{case}, {source} to {target}", bench.oracle.storage(x)
        with case.entered():
            y = unidev.copy_to(x, target)
        assert bench.oracle.storage(x) == before, f"{where}: the source's memory was exchanged"
        bench.oracle.check_copy(x, y, target, where)
        bench.oracle.check_no_more(y, len(bench.probe.read(x)), where)


@check(required=True, over="ring")
def test_non_blocking(bench: Workbench, source: Device, target: Device) -> None:
    """``non_blocking`` copies what the source held at the call; ``synchronize`` waits for it."""
    spellings = [target, str(target), target.native, target.native_name]
    is_large = (source, target) in bench.kinds_of_ways()
    for number, case in enumerate(bench.drawn(source, target, is_large=is_large)):
        whole = case.make(bench.probe, source)
        x, spelling = case.laid_out(bench.probe, whole), spellings[number % len(spellings)]
        content, where = bench.probe.read(x), f"{case}, {source} to {spelling!r}, non_blocking"
        with case.entered():
            made = {"copy_to": unidev.copy_to(x, spelling, non_blocking=True)}
            moved = unidev.as_in_device(x, spelling, non_blocking=True)
        if source is target:
            assert moved is x, f"as_in_device, {where}: another object"
        else:
            made["as_in_device"] = moved
        if bench.has("probe.write"):
            bench.probe.write(whole, 1)  # at once
        unidev.synchronize(target)
        for name, y in made.items():
            if case.layout == CONTIGUOUS:  # a copy of another may have its strides, or not
                said = f"{name}, {where}, after synchronize"
                bench.oracle.check_memory(y, target, content, said)
            said = f"{name}, {where}, after writing to the source"
            bench.oracle.check_bytes(y, content, said)
            bench.oracle.check_disjoint(x, y, f"{name}, {where}")
            bench.oracle.check_device(y, target, f"{name}, {where}")


@check(required=True, over="ring")
def test_arrived(bench: Workbench, source: Device, target: Device) -> None:
    """A copy without ``non_blocking`` is in memory when the call returns, for whoever looks."""
    for size in samples.SIZES:
        values = samples.counting((size,))
        x = bench.make(values, source)
        y, where = unidev.copy_to(x, target), f"{size} elements, {source} to {target}, at once"
        bench.oracle.check_memory(y, target, values.tobytes(), where)
        bench.oracle.check_bytes(y, values.tobytes(), where)


@check(required=True, over="all_pairs")
def test_lands_on_the_device_asked_for(bench: Workbench, source: Device, target: Device) -> None:
    """The copy is on the requested device, whatever scope is open and however it is spelt."""
    x = bench.matrix(source)
    y = unidev.copy_to(x, target)
    bench.oracle.check_device(y, target, f"{source} to {target}")
    bench.oracle.check_device(x, source, f"the source of {source} to {target}")
    for spelling in (str(target), target.native):
        y = unidev.copy_to(x, spelling)
        bench.oracle.check_device(y, target, f"{source} to {spelling!r}")
    for scope in bench.devices:
        with scope:
            y = unidev.copy_to(x, target)
        bench.oracle.check_device(y, target, f"{source} to {target} inside `with {scope}`")


@check(required=True, needs=("probe.write",), over="all_pairs")
def test_writing_one_leaves_the_other(bench: Workbench, source: Device, target: Device) -> None:
    """Writing to the source does not change the copy, nor the reverse."""
    for values in (samples.counting(), samples.counting((1_000,)), samples.big()):
        x = bench.make(values, source)
        y = unidev.copy_to(x, target)
        where = f"{values.shape}, {source} to {target}"
        bench.oracle.check_writes_apart(x, y, where)
        bench.oracle.check_disjoint(x, y, f"{where}, after writing")


@check(required=True, over="all_pairs")
def test_source_intact(bench: Workbench, source: Device, target: Device) -> None:
    """Copying leaves the source unchanged: bits, dtype, shape, device and memory."""
    x = bench.make(samples.telling_bits("float32"), source)
    before = bench.probe.read(x), bench.oracle.storage(x), x.dtype, tuple(x.shape)
    y = unidev.copy_to(x, target)
    after = bench.probe.read(x), bench.oracle.storage(x), x.dtype, tuple(x.shape)
    assert before == after, f"{source} to {target}: the source was {before}, and is {after}"
    bench.oracle.check_device(x, source, f"the source of {source} to {target}")
    assert y is not x, f"{source} to {target}: the copy is the source"


@check(required=True, over="all_pairs")
def test_from_a_view(bench: Workbench, source: Device, target: Device) -> None:
    """A transposed or sliced view is copied element by element, not with the storage behind it."""
    _check_view(bench, "transposed", source, target)
    _check_view(bench, "sliced", source, target)


@check(required=True, over="all_pairs")
def test_from_a_broadcast(bench: Workbench, source: Device, target: Device) -> None:
    """A broadcast view becomes a tensor with memory for each of its elements."""
    _check_view(bench, "broadcast", source, target)


def _check_view(bench: Workbench, name: str, source: Device, target: Device) -> None:
    for shape in ((3, 4), (500, 1_000)):
        whole = bench.make(samples.counting(shape), source)
        view = bench.probe.views(whole)[name]
        where = f"{name} of {shape}, {source} to {target}"
        y = unidev.copy_to(view, target)
        bench.oracle.check_copy(view, y, target, where)
        bench.oracle.check_disjoint(whole, y, f"{where}, and the tensor it is a view of")
        if shape == (3, 4) and bench.has("probe.write"):
            content = bench.probe.read(y)
            bench.probe.write(whole, 77)
            bench.oracle.check_bytes(y, content, f"{where}, after writing to the viewed tensor")


@check(required=True)
def test_float64_and_int64_not_narrowed(bench: Workbench) -> None:
    """64 bits stay 64, for arrays and for copies; where they are not supported, it is an error."""
    for dtype, value in (("float64", 1 + 2**-52), ("int64", 2**53 + 1)):
        values = np.array([value, -value], dtype=dtype)
        if dtype not in bench.backend.dtypes:
            bench.expect(unidev.UnsupportedDtypeError, unidev.array, values)
            continue
        for source, target in bench.all_pairs():
            if dtype not in bench.dtypes(source, target):
                continue  # that it is refused there is what `errors.dtypes_of_devices` checks
            x = unidev.array(values, device=source)
            bench.oracle.check_bytes(x, values.tobytes(), f"{dtype} array on {source}")
            y = unidev.copy_to(x, target)
            bench.oracle.check_bytes(y, values.tobytes(), f"{dtype}, {source} to {target}")
            back = unidev.to_numpy(y)
            assert back.dtype == values.dtype, f"{dtype} is read back as {back.dtype}"
            bench.oracle.check_kind(x, y, f"{dtype}, {source} to {target}")


@check(required=True, over="all_pairs")
def test_shape_kept(bench: Workbench, source: Device, target: Device) -> None:
    """The copy has the source's shape, including axes of length 1 and many axes."""
    for shape in ((1,), (1, 1), (4, 1, 3), (2, 1, 2, 1, 2), (1_000, 2)):
        x = bench.make(samples.counting(shape), source)
        y = unidev.copy_to(x, target)
        assert tuple(y.shape) == shape, f"{source} to {target}: {tuple(y.shape)}, not {shape}"
        bench.oracle.check_copy(x, y, target, f"{shape}, {source} to {target}")


@check(required=True, over="all_pairs")
def test_zero_d(bench: Workbench, source: Device, target: Device) -> None:
    """A zero-dimensional tensor is copied like any other, and stays zero-dimensional."""
    for dtype in bench.dtypes(source, target):
        x, where = _of_shape(bench, (), dtype, source), f"zero-d {dtype}, {source} to {target}"
        y = unidev.copy_to(x, target)
        assert tuple(y.shape) == (), f"{where}: shape {tuple(y.shape)}"
        bench.oracle.check_copy(x, y, target, where)


def _of_shape(bench: Workbench, shape: tuple[int, ...], dtype: str, device: Device) -> Any:
    if not samples.is_numpy_dtype(dtype):
        return unidev.array(samples.counting(shape), dtype=dtype, device=device)
    return bench.make(samples.counting(shape, dtype), device)


@check(required=True, over="all_pairs")
def test_zero_size(bench: Workbench, source: Device, target: Device) -> None:
    """An empty tensor becomes another one of the same shape, dtype and device."""
    shapes = itertools.cycle([(0,), (0, 3), (2, 0), (2, 0, 1, 3)])
    for dtype, shape in zip(bench.dtypes(source, target) * 2, shapes, strict=False):
        x, where = _of_shape(bench, shape, dtype, source), f"{dtype} {shape}, {source} to {target}"
        y = unidev.copy_to(x, target)
        # There are no bytes to compare: all that can be proved is that it is another object.
        assert y is not x, f"{where}: the copy is the source, the same object"
        bench.oracle.check_kind(x, y, where)
        bench.oracle.check_device(y, target, where)
        bench.oracle.check_bytes(y, b"", where)


@check(over="ring")
def test_sizes_and_alignments(bench: Workbench, source: Device, target: Device) -> None:
    """Small and large tensors, from arrays aligned to 64 bytes and 4 bytes off, are all copied."""
    names = [name for name in bench.dtypes(source, target) if samples.is_numpy_dtype(name)]

    @a_handful
    @given(strategies.sizes(names))
    @example(("float32", 1_000_000, samples.ALIGNMENTS[0]))
    @example(("float32", 1_000_000, samples.ALIGNMENTS[1]))
    def check_size(case: tuple[str, int, int]) -> None:
        dtype, size, offset = case
        on_host = samples.aligned(samples.counting((size,), dtype), offset)
        x = unidev.array(on_host, device=source)
        where = f"{size} elements of {dtype} at 64k + {offset}, {source} to {target}"
        y = unidev.copy_to(x, target)
        bench.oracle.check_copy(x, y, target, where)
        z = bench.make(on_host, source)
        bench.oracle.check_copy(z, unidev.copy_to(z, target), target, where)

    check_size()


@check()
def test_variables_and_parameters(bench: Workbench) -> None:
    """Variables and parameters, updated in place, are copied on their device and to the next."""
    check_specials(bench, lambda name: "variable" in name or "parameter" in name)


@check()
def test_strings_ragged_sparse(bench: Workbench) -> None:
    """The framework's other kinds of tensor (strings, sparse, masked) are copied or refused."""
    check_references(bench)
    check_specials(bench, lambda name: "variable" not in name and "parameter" not in name)


@check()
def test_copy_of_a_copy(bench: Workbench) -> None:
    """A copy of a copy shares no memory with either, and passes through all devices unchanged."""
    x = bench.make(samples.telling_bits("float32"), bench.cpu)
    kept = [x]
    for device in [*bench.devices, *bench.devices[::-1]]:
        y = unidev.copy_to(kept[-1], device)
        for earlier in kept:
            bench.oracle.check_disjoint(earlier, y, f"copy {len(kept)}, on {device}")
        bench.oracle.check_bytes(y, bench.probe.read(x), f"copy {len(kept)}, on {device}")
        kept.append(y)


@check(needs=("probe.allocated_bytes",), over="ring")
def test_allocated_bytes_grow(bench: Workbench, source: Device, target: Device) -> None:
    """A copy that is held takes as much memory as its elements: it is not deferred."""
    bench.check_grows(
        lambda x: unidev.copy_to(x, target),
        partial(bench.make, samples.big(), source),
        device=target,
        nbytes=samples.BIG_BYTES,
        where=f"{source} to {target}",
    )


@check(required=True, needs=("probe.gradient",), over="all_pairs")
def test_gradient_reaches_the_source(bench: Workbench, source: Device, target: Device) -> None:
    """The gradient flows through a copy, on one device and between any two, in each dtype."""

    def once(x: Any) -> Any:
        return unidev.copy_to(x, target)

    def there_and_back(x: Any) -> Any:
        return unidev.copy_to(unidev.copy_to(x, target), source, non_blocking=True)

    values = samples.counting()
    _check_gradient(bench, source, once, values, f"{source} to {target}")
    _check_gradient(bench, source, there_and_back, values, f"{source} to {target} and back")
    if (source, target) in bench.ring():
        for each in (samples.counting(()), samples.counting((1, 2, 1))):
            where = f"shape {each.shape}, {source} to {target} and back"
            _check_gradient(bench, source, there_and_back, each, where)
        for dtype in bench.dtypes(source, target):
            if samples.is_numpy_dtype(dtype) and np.dtype(dtype).kind in "fc":
                where = f"{dtype}, {source} to {target} and back"
                _check_like_without(bench, source, there_and_back, dtype, where)


def _check_gradient(
    bench: Workbench, source: Device, function: Any, values: samples.Array, where: str
) -> None:
    found = _gradient(bench, function, values, source, where)
    assert np.array_equal(found, np.ones_like(values)), f"{where}: the gradient is {found}, not 1"
    bench.evidence.add("gradient", f"{where}: {np.asarray(found).tolist()}")


def _check_like_without(
    bench: Workbench, source: Device, function: Any, dtype: str, where: str
) -> None:
    """The gradient is as if nothing were copied, if the framework differentiates the dtype."""
    values = samples.counting(dtype=dtype) * (1 + 2j if dtype.startswith("complex") else 1)
    values = values.astype(dtype)
    try:
        expected = bench.probe.gradient(lambda x: x, values, source)
    except unidev.UnsupportedOperation as refusal:
        bench.evidence.add("no gradients", f"{dtype}: {refusal.reason}")
        return
    assert np.all(expected), f"{where}: without a copy the gradient is {expected}"
    found = _gradient(bench, function, values, source, where)
    assert found.dtype == expected.dtype, f"{where}: the gradient's dtype is {found.dtype}"
    assert np.array_equal(found, expected), f"{where}: the gradient is {found}, not {expected}"


def _gradient(
    bench: Workbench, function: Any, values: samples.Array, source: Device, where: str
) -> samples.Array:
    probe, said = bench.probe.autograd, list[bool]()
    is_native = bench.has("probe.autograd") and values.dtype.kind == "f"
    has_flags = is_native and bench.has("probe.autograd.is_differentiable")

    def noted(x: Any) -> Any:
        y = function(x)
        if has_flags:
            said.extend(map(probe.is_differentiable, (x, y, function(probe.detach(x)))))
        return y

    try:
        if is_native:
            (found,) = probe.gradients(noted, [values], [source])
        else:
            found = bench.probe.gradient(function, values, source)
    except Exception as error:  # each framework raises its own error if nothing flows
        raise AssertionError(f"{where}: no gradient: {type(error).__name__}: {error}") from error
    assert found is not None, f"{where}: no gradient reaches the source"
    if not is_native:
        return np.asarray(found)
    assert not has_flags or said == [True, True, False], (
        f"{where}: of the source, its copy, and that of a detached one, {said} are differentiable"
    )
    bench.oracle.check_device(found, source, f"{where}: the gradient")
    bench.oracle.check_kind(bench.make(values, source), found, f"{where}: the gradient")
    array: samples.Array = np.frombuffer(bench.probe.read(found), values.dtype).reshape(
        values.shape
    )
    return array
