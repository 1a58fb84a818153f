"""Gradients through the transfer verbs, using the framework's own calls. PYTEST_DONT_REWRITE."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import example, given

import unidev
from unidev_conformance.kit.inputs.samples import is_numpy_dtype
from unidev_conformance.kit.inputs.shapes import SIZES
from unidev_conformance.kit.inputs.strategies import a_handful, from_seed, pick, some
from unidev_conformance.kit.models.differentiating import (
    after_gradients,
    check_gradient,
    check_none,
    gradients,
    plus,
    read,
    refuses_where_it_records,
    times,
    total,
    wholes,
    within_scopes,
)
from unidev_conformance.kit.oracle import line_of
from unidev_conformance.running.catalog import check

if TYPE_CHECKING:
    from collections.abc import Callable

    from unidev.device import Device
    from unidev_conformance.kit.workbench import Workbench

    Random = np.random.Generator
    Verb = Callable[[Any, Device], Any]

_PROBE = ("probe.autograd",)


@check(required=True, needs=_PROBE, over="devices")
def test_probe_calibrated(bench: Workbench, device: Device) -> None:
    """The probe's gradients are correct, None where nothing flows, and on the right device."""
    x, y, detach = wholes(2, 3), wholes(2, 3, start=3), bench.probe.autograd.detach
    both = (device, device)
    where = f"{line_of(bench.probe.autograd.gradients)}, on {device}"
    grads = gradients(bench, lambda x, y: plus(times(x, x), y), (x, y), both, where)
    check_gradient(bench, grads[0], 2 * x, device, f"{where}: d(x*x + y)/dx")
    check_gradient(bench, grads[1], np.ones_like(y), device, f"{where}: d(x*x + y)/dy")
    grads = gradients(bench, lambda x, _: plus(x, x), (x, y), both, where)
    check_gradient(bench, grads[0], 2 * np.ones_like(x), device, f"{where}: d(x + x)/dx")
    assert grads[1] is None, f"{where}: d(x + x)/dy is {grads[1]}, not None"
    (grad,) = gradients(bench, lambda x: times(x, detach(x)), (x,), (device,), where)
    check_gradient(bench, grad, x, device, f"{where}: d(x * detach(x))/dx")
    _calibrate_flag(bench, x, device)
    _calibrate_second_order(bench, x, device)


def _calibrate_flag(bench: Workbench, values: Any, device: Device) -> None:
    probe = bench.probe.autograd
    if not bench.has("probe.autograd.is_differentiable"):
        return
    said: list[bool] = []

    def function(x: Any) -> Any:
        said.extend(map(probe.is_differentiable, (x, times(x, x), probe.detach(x))))
        return x

    where = f"{line_of(probe.is_differentiable)}, on {device}"
    gradients(bench, function, (values,), (device,), where)
    assert said == [True, True, False], f"{where}: the flags of x, x * x and detach(x)"


def _calibrate_second_order(bench: Workbench, values: Any, device: Device) -> None:
    probe = bench.probe.autograd
    if bench.has("probe.autograd.second_order"):
        found = probe.second_order(lambda x: times(times(x, x), x), values, device)
        where = f"{line_of(probe.second_order)}, on {device}: x*x*x twice"
        check_gradient(bench, found, 6 * values, device, where)


@check(required=True, needs=_PROBE, over="all_pairs")
def test_flow_through_as_in_device(bench: Workbench, source: Device, target: Device) -> None:
    """The gradient flows back through as_in_device, whether it moves anything or not."""

    def squared(x: Any) -> Any:
        y = unidev.as_in_device(x, target)
        return times(y, y)

    def there_and_back(x: Any) -> Any:
        return times(unidev.as_in_device(unidev.as_in_device(x, target), source), x)

    def nested(x: Any) -> Any:
        moved = unidev.as_in_device({"x": [x, x]}, target)["x"]
        return times(moved[0], moved[1])

    x, where = wholes(2, 3), f"as_in_device, {source} to {target}"
    for said, function in (("", squared), (", and back", there_and_back), (", nested", nested)):
        (grad,) = gradients(bench, function, (x,), (source,), where + said)
        check_gradient(bench, grad, 2 * x, source, where + said)


@check(required=True, needs=_PROBE, over="ring")
def test_through_slices(bench: Workbench, source: Device, target: Device) -> None:
    """The gradient of a slice, also of a copied one, is zero elsewhere, on the source's device."""
    x = wholes(3, 4)
    for name, part in _SLICES.items():
        where = f"x[{name}], {source} to {target}"
        expected = np.zeros_like(x)
        part(expected)[...] = 2 * part(x)

        def function(x: Any, part: Callable[[Any], Any] = part) -> Any:
            with unidev.device_of(x):
                y = part(x)
            copied = unidev.copy_to(y, target)
            return times(copied, copied)

        (gradient,) = gradients(bench, function, (x,), (source,), where)
        check_gradient(bench, gradient, expected, source, where)


_SLICES: dict[str, Callable[[Any], Any]] = {
    "0": lambda x: x[0],
    "1:": lambda x: x[1:],
    ":, -1": lambda x: x[:, -1],
    "::2, 1:3": lambda x: x[::2, 1:3],
}


@check(required=True, needs=("probe.autograd", "autograd"), over="kinds_of_ways")
def test_any_dtype_and_size(bench: Workbench, source: Device, target: Device) -> None:
    """The gradient through a copy is exact for each dtype that the framework differentiates."""
    dtypes = [
        name
        for name in bench.dtypes(source, target)
        if not is_numpy_dtype(name) or np.dtype(name).kind in "fc"
    ]
    for number, dtype in enumerate(dtypes):
        is_last = source is bench.devices[-1]
        for count in (67, SIZES[-1]) if is_last else (SIZES[1 + number % 5],):
            where = f"{count} elements of {dtype}, {source} to {target}"
            if is_numpy_dtype(dtype):
                _check_as_without(bench, np.dtype(dtype), count, (source, target), where)
            else:
                _check_value_and_grad(bench, dtype, count, (source, target), where)


def _check_as_without(
    bench: Workbench, dtype: Any, count: int, way: tuple[Device, Device], where: str
) -> None:
    """The gradient is that of the same function without the copy, if the framework gives that."""
    source, target = way
    x = (np.arange(count) % 5 + 1).astype(dtype)

    def real(x: Any) -> Any:
        y = plus(x, x)
        with unidev.device_of(y):
            return abs(y) if dtype.kind == "c" else y

    try:
        (own,) = gradients(bench, real, (x,), (source,), where)
    except AssertionError as error:
        own, where = None, f"{where}: {error}"
    if own is None:
        bench.evidence.add("not differentiated by the framework itself", where)
        return
    (grad,) = gradients(bench, lambda x: real(unidev.copy_to(x, target)), (x,), (source,), where)
    check_gradient(bench, grad, read(bench, own, x), source, where)


def _check_value_and_grad(
    bench: Workbench, dtype: str, count: int, way: tuple[Device, Device], where: str
) -> None:
    """As above, for a dtype that NumPy lacks, so that the probe cannot be given an array of it."""
    x = unidev.array(np.ones((1, count), "float32"), dtype=dtype, device=way[0])
    try:
        unidev.value_and_grad(total)(x)
    except Exception as error:  # noqa: BLE001  the framework's own, if it has no such kernel
        bench.evidence.add("not differentiated by the framework itself", f"{where}: {error}")
        return

    def loss(x: Any) -> Any:
        return total(unidev.copy_to(x, way[1]))

    _, grad = bench.works(unidev.value_and_grad(loss), x)
    bench.oracle.check_bytes(grad, bench.probe.read(unidev.ones_like(x)), f"{where}: gradient")
    bench.oracle.check_device(grad, way[0], f"{where}: the gradient")


@check(required=True, needs=_PROBE, over="all_pairs")
def test_land_on_the_sources_device(bench: Workbench, here: Device, there: Device) -> None:
    """Each source's gradient is on the source's device, wherever the result was computed."""
    x, y = wholes(2, 3), wholes(2, 3, start=2)
    for at in bench.devices:

        def product(x: Any, y: Any, at: Device = at) -> Any:
            return times(unidev.as_in_device(x, at), unidev.as_in_device(y, at))

        where = f"x on {here}, y on {there}, x * y on {at}"
        by_x, by_y = gradients(bench, product, (x, y), (here, there), where)
        check_gradient(bench, by_x, y, here, f"{where}, dx")
        check_gradient(bench, by_y, x, there, f"{where}, dy")


@check(required=True, needs=("probe.autograd.is_differentiable",))
def test_flag_is_true(bench: Workbench) -> None:
    """A copy's flag is correct: true if it is differentiable, false if it is detached."""
    for verb in (unidev.copy_to, unidev.as_in_device):
        for source, target in bench.all_pairs():
            _check_flag(bench, verb, source, target)


def _check_flag(bench: Workbench, verb: Verb, source: Device, target: Device) -> None:
    x, probe = wholes(2, 3), bench.probe.autograd
    said: list[bool] = []

    def function(x: Any) -> Any:
        y = verb(x, target)
        cut = verb(probe.detach(x), target)
        said.extend(map(probe.is_differentiable, (y, cut)))
        # x takes part as well, since some frameworks raise if nothing at all flows.
        return plus(times(y, y), verb(x, target))

    where = f"{getattr(verb, '__name__', '')}, {source} to {target}"
    (grad,) = gradients(bench, function, (x,), (source,), where)
    expected = 2 * x + 1 if said[0] else np.zeros_like(x)
    check_gradient(bench, grad, expected, source, f"{where}, whose flag is {said[0]}")
    assert said[0] is True, f"{where}: the flag of a differentiable copy is False"
    assert said[1] is False, f"{where}: the flag of a copy of a detached tensor is True"
    bench.evidence.add("flags", f"{where}: {said}")


@check(required=True, needs=_PROBE, over="all_pairs")
def test_detach_cuts(bench: Workbench, source: Device, target: Device) -> None:
    """Copies of detached tensors stay detached, and so do numbers on the host."""
    x, detach = wholes(2, 3), bench.probe.autograd.detach

    def before(x: Any) -> Any:
        return times(unidev.copy_to(detach(x), target), unidev.as_in_device(x, target))

    def after(x: Any) -> Any:
        return times(detach(unidev.copy_to(x, target)), unidev.as_in_device(x, target))

    def on_host(x: Any) -> Any:
        values = unidev.array(unidev.to_numpy(x), device=target)
        return times(values, unidev.as_in_device(x, target))

    for name, function in (("before", before), ("after", after), ("to_numpy", on_host)):
        where = f"{source} to {target}, detached: {name}"
        (grad,) = gradients(bench, function, (x,), (source,), where)
        check_gradient(bench, grad, x, source, where)


@check(required=True, needs=_PROBE, over="devices")
def test_accumulate(bench: Workbench, source: Device) -> None:
    """A source of several copies gets the sum of the gradients through each."""
    x = wholes(2, 3)
    for rendezvous in bench.devices:

        def function(x: Any, rendezvous: Device = rendezvous) -> Any:
            found = unidev.as_in_device(x, rendezvous)
            for device in bench.devices:
                copied = unidev.copy_to(x, device)
                found = plus(found, unidev.as_in_device(plus(copied, copied), rendezvous))
            return found

        where = f"from {source} to every device, met on {rendezvous}"
        (grad,) = gradients(bench, function, (x,), (source,), where)
        expected = np.full_like(x, 1 + 2 * len(bench.devices))
        check_gradient(bench, grad, expected, source, where)


@check(required=True, needs=("probe.autograd.second_order",), over="all_pairs")
def test_second_order(bench: Workbench, source: Device, target: Device) -> None:
    """Second-order gradients flow through the verbs, too."""
    x = wholes(2, 3)
    for verb in (unidev.copy_to, unidev.as_in_device):

        def cubed(x: Any, verb: Verb = verb, target: Device = target) -> Any:
            y = verb(x, target)
            return times(times(y, y), y)

        where = f"{getattr(verb, '__name__', '')}, {source} to {target}"
        found = bench.works(bench.probe.autograd.second_order, cubed, x, source)
        check_gradient(bench, found, 6 * x, source, where)


@check(required=True, needs=("probe.autograd", "autograd", "autograd.no_grad"))
def test_no_grad_records_nothing(bench: Workbench) -> None:
    """Inside no_grad nothing is recorded, copies neither; afterwards it is again.

    Also after inner scopes, after exceptions, and after ``value_and_grad``, which records there.
    Or no_grad cannot be entered where the framework records, which is what its caller learns.
    """
    x, ring = wholes(2, 3), bench.ring()
    if refuses_where_it_records(bench):
        return

    def drawn(rng: Random) -> tuple[list[bool], str, tuple[Device, Device]]:
        return some(rng, (False, True), 1, 4), pick(rng, _COPIES), pick(rng, ring)

    @a_handful
    @given(from_seed(drawn))
    @example(([False], _COPIES[0], ring[0]))
    @example(([True, True], _COPIES[1], ring[-1]))
    def cut_inside(case: tuple[list[bool], str, tuple[Device, Device]]) -> None:
        levels, name, (device, target) = case

        def function(x: Any) -> Any:
            squared = times(x, x)
            cut = within_scopes(levels, lambda: after_gradients(bench, device, lambda: times(x, x)))
            copied = within_scopes(levels, lambda: _copied(name, squared, target))
            if name == "as_in_device" and device is target:
                copied = cut
            factor = plus(cut, unidev.as_in_device(copied, device))
            return times(factor, x)  # 2 * x ** 3, of which only the last factor is recorded

        where = f"{name} from {device} to {target} inside no_grad, exceptions {levels}"
        (grad,) = gradients(bench, function, (x,), (device,), where)
        check_gradient(bench, grad, 2 * x * x, device, where)

    cut_inside()
    for device in bench.devices:
        grads = gradients(bench, _within_no_grad, (x, x), (device, device), f"on {device}")
        check_none(bench, grads[0], x.shape, f"on {device}, entirely inside no_grad")


_COPIES = ("copy_to", "as_in_device", "copy_to of a container")


def _copied(name: str, x: Any, target: Device) -> Any:
    if name == "copy_to of a container":
        return unidev.copy_to({"x": [x, x]}, target)["x"][1]
    return (unidev.copy_to if name == "copy_to" else unidev.as_in_device)(x, target)


def _within_no_grad(x: Any, y: Any) -> Any:
    with unidev.no_grad():
        cut = times(x, x)
    return plus(y, cut)


@check(required=True, needs=("probe.autograd", "autograd", "autograd.no_grad"))
def test_no_grad_is_of_one_thread(bench: Workbench) -> None:
    """While one thread is inside no_grad, another one records, whichever of them began first."""
    x, device = wholes(2, 3), bench.devices[-1]
    within, done = threading.Event(), threading.Event()

    def stay_within() -> None:
        with unidev.no_grad():
            within.set()
            done.wait(60)

    other = threading.Thread(target=stay_within)
    other.start()
    try:
        assert within.wait(60), "the other thread did not enter no_grad"
        grads = gradients(bench, lambda x: times(x, x), (x,), (device,), "beside no_grad")
        check_gradient(bench, grads[0], 2 * x, device, "while another thread is inside no_grad")
    finally:
        done.set()
        other.join(60)
    found: list[Any] = []
    later = threading.Thread(
        target=lambda: found.extend(
            gradients(bench, lambda x: times(x, x), (x,), (device,), "in another thread")
        )
    )
    with unidev.no_grad():
        later.start()
        later.join(60)
    assert len(found) == 1, "no gradient in a thread that was started inside no_grad"
    check_gradient(bench, found[0], 2 * x, device, "in a thread that was started inside no_grad")
