"""Memory is released. PYTEST_DONT_REWRITE."""

from __future__ import annotations

import contextlib
import gc
from functools import partial
from typing import TYPE_CHECKING, Any

import unidev
from unidev.contract.backend import Unsupported
from unidev_conformance.kit.inputs import samples
from unidev_conformance.kit.inputs.containers import Slotted
from unidev_conformance.running.catalog import check

if TYPE_CHECKING:
    from collections.abc import Callable

    from unidev.device import Device
    from unidev_conformance.kit.workbench import Workbench

_LOOP = 10


@check(required=True, needs=("probe.allocated_bytes",), over="ring")
def test_returns_after_del(bench: Workbench, source: Device, target: Device) -> None:
    """A dropped copy's memory is released without garbage collection, while its source lives."""
    verbs: dict[str, Callable[[Any, Device], object]] = {
        "copy_to": unidev.copy_to, "as_in_device": unidev.as_in_device,
    }  # fmt: skip
    if target is bench.devices[-1]:
        verbs["a refused copy"] = _refused
    for name, verb in verbs.items():

        def use(x: Any, target: Device = target, verb: Any = verb) -> None:
            copied = verb(x, target)
            del copied

        where = f"{name}, {source} to {target}"
        fresh = partial(bench.make, samples.big(), source)
        bench.check_leaves_nothing(use, fresh, device=target, where=where)


def _refused(x: Any, target: Device) -> None:
    with contextlib.suppress(unidev.UnsupportedContainerError):
        unidev.copy_to([x, Slotted(x)], target)


@check(required=True, needs=("probe.allocated_bytes",), over="ring")
def test_source_is_released(bench: Workbench, source: Device, target: Device) -> None:
    """A copy that is held does not keep the memory of a source that was dropped."""
    values, ability = samples.big(), bench.backend.releases_source
    if isinstance(ability, Unsupported):
        values = values.view("int32")  # which have no gradient
        bench.evidence.add("integers alone", ability.reason)

    def copied() -> Any:
        return unidev.copy_to(bench.make(values, source), target)

    where = f"the copy alone, {source} to {target}"
    bench.check_grows(copied, device=target, nbytes=samples.BIG_BYTES, where=where)
    if source is not target:  # whose count may be that of the same memory
        before = bench.probe.allocated_bytes(source)
        held = bench.make(values, target)
        beside = bench.probe.allocated_bytes(source) - before
        del held
        expected = samples.BIG_BYTES if beside > samples.BIG_BYTES // 2 else 0
        beside_source = f"{where}, on the source's device"
        bench.check_grows(copied, device=source, nbytes=expected, where=beside_source)


@check(needs=("probe.allocated_bytes",), over="ring")
def test_loop_of_copies_stays_flat(bench: Workbench, source: Device, target: Device) -> None:
    """Many copies in a row, small and large, of tensors and containers, take no more than one."""

    def loop(x: Any, small: Any) -> None:
        for _ in range(_LOOP):
            unidev.copy_to({"x": x, "small": [small]}, target)
        for _ in range(_LOOP * 10):
            unidev.copy_to(small, target)

    bench.check_leaves_nothing(
        loop,
        partial(bench.make, samples.big(), source),
        partial(bench.matrix, source),
        device=target,
        where=f"{_LOOP} copies, {source} to {target}",
    )


@check(over="ring")
def test_no_reference_cycle(bench: Workbench, source: Device, target: Device) -> None:
    """No tensor that unidev made, or failed to make, waits for the garbage collector."""
    found = _tensors_left_to_collect(bench, source, target)
    kinds = [type(each).__name__ for each in found]
    assert not found, f"{source} to {target}: left in reference cycles: {kinds}"


def _tensors_left_to_collect(bench: Workbench, source: Device, target: Device) -> list[Any]:
    _use_all(bench, source, target)  # creates now what is created once and kept
    gc.collect()
    flags = gc.get_debug()
    gc.disable()
    try:
        gc.set_debug(gc.DEBUG_SAVEALL)
        _use_all(bench, source, target)
        gc.collect()
        types = bench.backend.tensor_types
        return [each for each in gc.garbage if isinstance(each, types)]
    finally:
        gc.set_debug(flags)
        gc.garbage.clear()
        gc.enable()


def _use_all(bench: Workbench, source: Device, target: Device) -> None:
    x = bench.matrix(source)
    unidev.copy_to(x, target)
    unidev.as_in_device({"x": x, "y": [unidev.zeros(3, device=source)]}, target)
    unidev.check_same_device(x, [x])
    with contextlib.suppress(unidev.DeviceError):
        unidev.copy_to(unidev.zeros(3, device=source), "gpu:4000")
    with contextlib.suppress(unidev.NotATensorError):
        unidev.copy_to(unidev.copy_to, target)
