"""``all_reduce``: values, memory, and the number of copies.

PYTEST_DONT_REWRITE
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

import unidev
from unidev.conformance.kit.current import check_stays
from unidev.conformance.kit.inputs import samples
from unidev.conformance.running.catalog import check
from unidev.contract.backend import Unsupported

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unidev.conformance.kit.workbench import Workbench
    from unidev.contract.device import Device

    Array = np.ndarray[Any, Any]

_NEEDS = ("collectives",)
_PRIMES = (2, 3, 5, 7, 11, 13, 17, 19)
_SHAPES = ((2, 3), (), (0, 4), (5,), (1, 1, 4), (1,), (300,))
_OPERATIONS = {"sum": np.sum, "min": np.min, "max": np.max, "mean": np.mean}


def _dtypes(bench: Workbench) -> list[str]:
    """What everybody can reduce, as far as the backend has it."""
    wanted = ("int8", "int32", "int64", "uint8", "float16", "bfloat16", "float32", "float64")
    return [name for name in wanted if name in bench.dtypes(*bench.devices)]


def _read(x: Any) -> Array:
    if "bfloat16" in str(x.dtype):
        x = unidev.array(x, dtype="float32")
    return unidev.to_numpy(x).astype("float64")


@check(required=True, needs=_NEEDS)
def test_values(bench: Workbench) -> None:
    """Every operation gives the right numbers, of the dtype and shape, on the device of each."""
    devices = bench.several(3)
    for dtype in _dtypes(bench):
        trees = [
            [
                unidev.full(shape, prime + at, dtype=dtype, device=device)
                for at, shape in enumerate(_SHAPES)
            ]
            for prime, device in zip(_PRIMES, devices, strict=False)
        ]
        for op, reference in _OPERATIONS.items():
            if op == "mean" and "int" in dtype:
                bench.expect(unidev.UnsupportedDtypeError, unidev.all_reduce, trees, op)
                continue
            reduced = bench.works(unidev.all_reduce, trees, op)
            _check_values(bench, trees, reduced, reference, f"{op} of {dtype}")


def _check_values(
    bench: Workbench, trees: list[Any], reduced: Sequence[Any], reference: Any, where: str
) -> None:
    primes = np.array(_PRIMES[: len(trees)], "float64")
    for source, result in zip(trees, reduced, strict=True):
        for at, (x, y) in enumerate(zip(source, result, strict=True)):
            bench.oracle.check_device(y, unidev.device_of(x), where)
            bench.oracle.check_kind(x, y, where)
            expected = np.full(_SHAPES[at], reference(primes + at))
            found = _read(y)
            assert np.allclose(found, expected, rtol=1e-2 if "16" in where else 1e-6), (
                f"{where}, shape {_SHAPES[at]}: {found.tolist()} instead of {expected.tolist()}"
            )
            bench.oracle.check_bytes(y, bench.probe.read(reduced[0][at]), f"{where}, two devices")


@check(required=True, needs=_NEEDS)
def test_means(bench: Workbench) -> None:
    """A mean is weighted, by rows for example, and does not overflow on the way."""
    devices = bench.several(3)
    xs = [bench.make(np.full(3, p, "float32"), d) for p, d in zip(_PRIMES, devices, strict=False)]
    rows = [4] * (len(devices) - 1) + [1]
    expected = np.average(_PRIMES[: len(devices)], weights=rows)
    for y in unidev.all_reduce(xs, "mean", weights=rows):
        found = unidev.to_numpy(y)
        assert np.allclose(found, expected, rtol=1e-6), f"weights {rows}: {found}, not {expected}"
    if "float16" in _dtypes(bench):
        high = [bench.make(np.full(3, 60_000, "float16"), device) for device in devices]
        for y in unidev.all_reduce(high, "mean"):
            found = unidev.to_numpy(y)
            assert (found == 60_000).all(), f"the mean of 60,000 in float16 is {found.tolist()}"


@check(required=True, needs=_NEEDS)
def test_order(bench: Workbench) -> None:
    """Sums are taken in the order of the list: the same bits in every run, and on every device."""
    devices = bench.several(3)
    rng = np.random.default_rng(5)
    arrays = [rng.standard_normal(1_000).astype("float32") for _ in devices]
    for order in (range(len(devices)), reversed(range(len(devices)))):
        listed = list(order)
        total = arrays[listed[0]].copy()
        for number in listed[1:]:
            total += arrays[number]
        xs = [bench.make(arrays[number], devices[number]) for number in listed]
        for y in unidev.all_reduce(xs):
            bench.oracle.check_bytes(y, total.tobytes(), f"the sum in the order {listed}")


@check(required=True, needs=_NEEDS)
def test_memory(bench: Workbench) -> None:
    """Results are in memory of no input and no other device, and a write to one stays there."""
    devices = bench.several(3)
    for listed in (devices, [devices[1]] * 3, devices[:1]):
        for size in (3, 2**20 + 1):  # packed, and by itself
            trees = [_two(bench, size, device) for device in listed]
            before = [bench.probe.read(x) for tree in trees for x in tree]
            results = unidev.all_reduce(trees)
            where = f"all_reduce of {size} numbers on {listed}"
            for x, content in zip((x for tree in trees for x in tree), before, strict=True):
                bench.oracle.check_bytes(x, content, f"{where}, an input")
            for one, other in combinations([*trees, *results], 2):
                for a in one:
                    for b in other:
                        bench.oracle.check_disjoint(a, b, f"{where}, of two trees")
            if not isinstance(bench.probe.write, Unsupported):
                every = [x for tree in results for x in tree]
                bench.oracle.check_elements_apart(every, where)


def _two(bench: Workbench, size: int, device: Device) -> list[Any]:
    return [bench.make(samples.counting((size,)), device) for _ in range(2)]


@check(required=True, needs=_NEEDS)
def test_in_place(bench: Workbench) -> None:
    """The tensors that are held receive the results; immutable ones are refused, unchanged."""
    devices = bench.several(3)
    trees = [
        {"x": bench.make(np.full((2, 2), p, "float32"), d), "n": [bench.make(np.array(p), d)]}
        for p, d in zip(_PRIMES, devices, strict=False)
    ]
    held = [(tree["x"], tree["n"][0]) for tree in trees]
    total = sum(_PRIMES[: len(devices)])
    if isinstance(bench.probe.write, Unsupported):
        before = [bench.probe.read(x) for x, _ in held]
        bench.expect(unidev.UnsupportedOperation, unidev.all_reduce, trees, in_place=True)
        for (x, _), content in zip(held, before, strict=True):
            bench.oracle.check_bytes(x, content, "after a refusal")
        return
    result = bench.works(unidev.all_reduce, trees, in_place=True)
    assert result is trees, "in place, the result is not the list that was given"
    for (x, n), device in zip(held, devices, strict=True):
        for tensor in (x, n):
            bench.oracle.check_device(tensor, device, "in place")
            found = _read(tensor)
            assert (found == total).all(), f"the tensor that is held has {found}, not {total}"


@check(required=True, needs=_NEEDS)
def test_ties(bench: Workbench) -> None:
    """A tensor that stands at two places is reduced once, and stays one."""
    devices = bench.several(3)
    xs = [bench.make(np.full(2, p, "float32"), d) for p, d in zip(_PRIMES, devices, strict=False)]
    results = unidev.all_reduce([{"a": x, "b": (x,)} for x in xs])
    total = sum(_PRIMES[: len(devices)])
    for result in results:
        assert result["b"][0] is result["a"], "a tie has come apart"
        found = unidev.to_numpy(result["a"])
        assert (found == total).all(), f"{found} instead of {total}"


@check(required=True, needs=(*_NEEDS, "tracer"))
def test_transfers(bench: Workbench) -> None:
    """2 (n - 1) copies for each dtype and each large tensor, however many small ones there are."""
    devices = bench.several(3)
    trees = [
        [
            *(bench.make(samples.counting((2, n + 1)), device) for n in range(30)),
            *(bench.make(samples.counting((n + 1,), "int32"), device) for n in range(5)),
            bench.make(samples.big(), device),
        ]
        for device in devices
    ]
    with unidev.trace_transfers() as trace:
        unidev.all_reduce(trees)
    found = [transfer for transfer in trace.transfers if transfer.operation == "all_reduce"]
    expected = 3 * 2 * (len(devices) - 1)
    assert len(found) == expected, f"{len(found)} copies instead of {expected}"


@check(required=True, needs=(*_NEEDS, "autograd", "functions"))
def test_cut_from_autograd(bench: Workbench) -> None:
    """Gradients do not flow through a reduction."""
    devices = bench.several(3)
    xs = [bench.make(np.ones(2, "float32"), device) for device in devices[:2]]
    target = bench.make(np.zeros(2, "float32"), devices[0])

    def loss_of(trees: Any) -> Any:
        reduced = unidev.all_reduce(trees)[0]
        return unidev.nn.functional.mean_squared_error(reduced, target)

    bench.expect(unidev.InvalidDataError, unidev.value_and_grad(loss_of), xs)


@check(required=True, needs=_NEEDS)
def test_refusals(bench: Workbench) -> None:
    """Trees that do not match are errors that say where, in which trees."""
    devices = bench.several(3)
    x, y = bench.matrix(devices[0]), bench.matrix(devices[1])
    other, flag = bench.make(samples.counting((4,)), devices[1]), bench.of_dtype("bool", devices[0])
    of = unidev.all_reduce
    shape = bench.expect(unidev.InvalidDataError, of, [{"w": x}, {"w": other}])
    assert "'w'" in str(shape), f"the path is not in: {shape}"
    assert "[1]" in str(shape), f"the tree is not in: {shape}"
    bench.expect(unidev.InvalidDataError, of, [{"w": x}, {"v": y}])
    bench.expect(unidev.InvalidDataError, of, [[x], (y,)])
    bench.expect(unidev.InvalidDataError, of, [x, y], "product")
    bench.expect(unidev.InvalidDataError, of, [x, y], "mean", weights=[1, -1])
    bench.expect(unidev.InvalidDataError, of, [x, y], in_place=x)
    bench.expect(unidev.DeviceMismatchError, of, [{"a": x, "b": y}, {"a": x, "b": y}])
    bench.expect(unidev.UnsupportedDtypeError, of, [flag, flag])
    bench.expect(unidev.ContainerError, of, {"w": x})
    bench.expect(unidev.ContainerError, of, (each for each in (x, y)))


@check(required=True, needs=(*_NEEDS, "probe.current"), over="gpus")
def test_current_device_stays(bench: Workbench, device: Device) -> None:
    """Splitting, broadcasting and reducing change neither the current device nor the stream."""
    devices = bench.several(2)
    x = bench.make(samples.counting((len(devices), 3)), bench.cpu)
    calls = {
        "split_batch": lambda: unidev.split_batch(x, devices),
        "broadcast": lambda: unidev.broadcast(x, devices),
        "all_reduce": lambda: unidev.all_reduce(unidev.broadcast(x, devices), "sum"),
        "gather": lambda: unidev.gather(unidev.split_batch(x, devices), bench.cpu),
    }
    check_stays(bench, device, calls.items())
