"""``place`` that fails half way: the model stays where it was, intact. PYTEST_DONT_REWRITE."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import unidev
from unidev_conformance.kit.models.sample_models import Sample
from unidev_conformance.kit.processes.fresh import check_fresh
from unidev_conformance.kit.processes.lacking import check_place
from unidev_conformance.kit.spying import Calls, failing_at
from unidev_conformance.running.catalog import check

if TYPE_CHECKING:
    from unidev.device import Device
    from unidev_conformance.kit.workbench import Workbench

_BOTH = ("models", "probe.models")


@check(required=True, needs=_BOTH, over="neighbours")
def test_no_memory_half_way(bench: Workbench, source: Device, target: Device) -> None:
    """Whichever part finds no memory on the device, the model stays where it was, intact."""
    _check_failures(bench, "twin", source, target)


@check(required=True, needs=_BOTH, over="neighbours")
def test_failure_while_swapping(bench: Workbench, source: Device, target: Device) -> None:
    """A failure after some parts have moved moves those back, memory included."""
    _check_failures(bench, "swap", source, target)


@check(required=True, needs=_BOTH, over="neighbours")
def test_failure_at_the_end(bench: Workbench, source: Device, target: Device) -> None:
    """A failure in what follows the move undoes all of it."""
    _check_failure(bench, "finish", 1, source, target)


def _check_failures(bench: Workbench, method: str, source: Device, target: Device) -> None:
    """In the first, a middle and the last call of ``method`` in one move, which has some."""
    sample = Sample.trained_on(bench, source)
    with Calls(bench.backend.models, method) as calls:
        sample.place(target)
    assert calls.count, (
        f"{source} to {target}: `{method}` was not called, so a failure in it cannot be tested"
    )
    bench.evidence.add("calls", f"{method}, {source} to {target}: {calls.count}")
    for number in sorted({1, calls.count // 2, calls.count} - {0}):
        _check_failure(bench, method, number, source, target)


def _check_failure(
    bench: Workbench, method: str, number: int, source: Device, target: Device
) -> None:
    where = f"{source} to {target}, no memory in call {number} of `{method}`"
    sample, twin = Sample.trained_on(bench, source), Sample.trained_on(bench, source)
    before, memory = sample.contents(), sample.memory()
    with Calls(bench.backend.models, method, failing_at(number, MemoryError("no memory"))):
        bench.expect(
            unidev.OutOfDeviceMemoryError,
            unidev.place, sample.model, target, optimizer=sample.optimizer,
        )  # fmt: skip
    check_whole(bench, sample, before, memory, where)
    # It is intact if it continues as if nothing had happened.
    sample.step()
    twin.step()
    sample.check_like(twin, f"{where}, after another step")
    sample.place(target)
    sample.check_on(target, f"{where}, and then placed")


def check_whole(
    bench: Workbench, sample: Sample, before: dict[str, bytes], memory: dict[str, Any], where: str
) -> None:
    """Everything is on its old device, in its old memory, with its old values."""
    sample.check_on(sample.device, where)
    sample.check_contents(before, where)
    for name, x in sample.state().items():
        bench.oracle.check_device(x, sample.device, f"{where}: {name}")
    after = sample.memory()
    for name, extents in memory.items():
        assert after[name] == extents, f"{where}: the memory of {name}"


@check(required=True, needs=("layers", "models"))
def test_full_card(bench: Workbench) -> None:
    """``place`` on a GPU that is full leaves the model where it was, intact; then there is room."""
    check_fresh(bench, check_place, bench.real_gpus()[-1])


@check(required=True, needs=_BOTH, over="neighbours")
def test_interrupted(bench: Workbench, source: Device, target: Device) -> None:
    """An interrupt half way propagates, and the model stays where it was, intact."""
    for method in ("twin", "swap"):
        sample = Sample.trained_on(bench, source)
        before, memory = sample.contents(), sample.memory()
        where = f"{source} to {target}, interrupted in `{method}`"
        with Calls(bench.backend.models, method, failing_at(2, KeyboardInterrupt())):
            assert _is_interrupted(sample, target), f"{where}: the interrupt was swallowed"
        check_whole(bench, sample, before, memory, where)


def _is_interrupted(sample: Sample, target: Device) -> bool:
    try:
        unidev.place(sample.model, target, optimizer=sample.optimizer)
    except KeyboardInterrupt:
        return True
    return False


@check(required=True, needs=_BOTH, over="devices")
def test_device_that_is_not_there(bench: Workbench, device: Device) -> None:
    """A device that does not exist or cannot be parsed is an error, and nothing is moved."""
    sample = Sample.trained_on(bench, device)
    before, memory = sample.contents(), sample.memory()
    for spec, kind in (
        ("gpu:4000", unidev.DeviceNotFoundError),
        ("cpu:1", unidev.DeviceNotFoundError),
        ("nowhere", unidev.DeviceSpecError),
    ):
        bench.expect(kind, unidev.place, sample.model, spec)
        bench.expect(kind, unidev.place, sample.model, spec, optimizer=sample.optimizer)
    check_whole(bench, sample, before, memory, f"on {device}, after the errors")
