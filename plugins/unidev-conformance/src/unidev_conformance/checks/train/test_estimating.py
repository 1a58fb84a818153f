"""``estimate_memory``: the peak of a step that changes nothing. PYTEST_DONT_REWRITE."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import unidev
from unidev_conformance.kit.counting import TOLERANCE_BYTES
from unidev_conformance.kit.models.sample_models import Sample
from unidev_conformance.running.catalog import check

if TYPE_CHECKING:
    from unidev.device import Device
    from unidev_conformance.kit.workbench import Workbench

_NEEDS = ("estimator", "models", "probe.models")
_ROWS = 1 << 16
_ROW_BYTES = 16


def _batch(bench: Workbench, device: Device, rows: int = _ROWS) -> Any:
    return bench.make(np.full((rows, 4), 0.5, "float32"), device)


@check(required=True, needs=(*_NEEDS, "peaks"), over="gpus")
def test_as_it_is_counted(bench: Workbench, device: Device) -> None:
    """The estimate is the peak that the framework counts in a second step, to a tenth."""
    sample = Sample.on(bench, device)
    step, x = sample.probe.step, _batch(bench, device)
    estimate = bench.works(unidev.estimate_memory, step, sample.model, sample.optimizer, x)
    assert estimate.device is device, f"counted on {estimate.device}, and the model is on {device}"
    assert estimate.batch == _ROWS, f"{estimate.batch} rows, not {_ROWS}"
    total = sum(estimate.by_kind.values())
    assert total == estimate.peak_bytes, f"the kinds add up to {total}: {estimate}"
    sample.bench.works(step, sample.model, sample.optimizer, x)
    with unidev.track_memory(device) as peak:
        step(sample.model, sample.optimizer, x)
        unidev.synchronize(device)
    # Other tensors of the suite may be there; the batch and all that comes of it are counted anew.
    found, expected = estimate.peak_bytes, peak.added_bytes + _ROWS * _ROW_BYTES
    assert abs(found - expected) <= expected / 10 + TOLERANCE_BYTES, (
        f"{device}: {found} bytes are estimated, and {expected} were counted\n{estimate}"
    )
    bench.evidence.add("estimated", f"{device}: {found} bytes, counted {expected}")


@check(required=True, needs=_NEEDS, over="devices")
def test_nothing_is_changed(bench: Workbench, device: Device) -> None:
    """Model, optimizer and batch keep their values, also if the step raises; so does its error."""
    sample, x = Sample.trained_on(bench, device), _batch(bench, device, 8)
    before, given = sample.contents(), bench.probe.read(x)

    def fails(*arguments: Any) -> None:
        sample.probe.step(*arguments)
        raise KeyError("the step's own error")

    bench.works(unidev.estimate_memory, sample.probe.step, sample.model, sample.optimizer, x)
    sample.check_contents(before, f"{device}, estimated")
    bench.expect(KeyError, unidev.estimate_memory, fails, sample.model, sample.optimizer, x)
    sample.check_contents(before, f"{device}, after a step that raises")
    assert bench.probe.read(x) == given, f"{device}: the batch has changed"


@check(required=True, needs=_NEEDS)
def test_largest_batch(bench: Workbench) -> None:
    """The batch that is found fits, and one of twice as many rows does not."""
    device = bench.devices[-1]
    sample, x = Sample.on(bench, device), _batch(bench, device, 64)
    given = sample.probe.step, sample.model, sample.optimizer

    def peak(rows: int) -> int:
        return unidev.estimate_memory(*given, _batch(bench, device, rows)).peak_bytes

    limit = 4 << 20
    estimate = bench.works(unidev.estimate_memory, *given, x, of="4 MiB")
    rows = estimate.largest_batch
    assert rows, f"{device}: no batch fits into {limit} bytes\n{estimate}"
    least, more = peak(rows), peak(2 * rows)
    assert least <= limit < more, (
        f"{device}: for {limit} bytes {rows} rows are found, which take {least}, and twice as many "
        f"{more}"
    )
    none = unidev.estimate_memory(*given, x, of=1).largest_batch
    assert none == 0, f"{device}: a batch of {none} in one byte"
    for of in ("4 apples", "4", 0, True):
        bench.expect(unidev.InvalidDataError, unidev.estimate_memory, *given, x, of=of)
