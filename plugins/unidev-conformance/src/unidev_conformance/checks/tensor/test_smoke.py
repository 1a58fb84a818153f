"""Whether there is anything to judge by, and nothing around it changes. PYTEST_DONT_REWRITE."""

from __future__ import annotations

import itertools
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

import unidev
from unidev.system.settings import DETAILS
from unidev_conformance.kit.current import check_ends
from unidev_conformance.kit.inputs import drawing, samples
from unidev_conformance.kit.oracle import line_of
from unidev_conformance.kit.processes.fresh import run_fresh
from unidev_conformance.running.catalog import check

if TYPE_CHECKING:
    from unidev.device import Device
    from unidev_conformance.kit.workbench import Workbench


@check(required=True, also_in=("train", "multi", "interop", "hardware"))
def test_probe_calibrated(bench: Workbench) -> None:
    """The probe reports "same" for a view, "different" for live tensors, and reads correctly."""
    for device in bench.devices:
        _calibrate_reading(bench, device)
        _calibrate_extents(bench, device)
        if bench.has("probe.write"):
            _calibrate_writing(bench, device)
    if bench.has("probe.gradient"):
        _calibrate_gradient(bench, bench.cpu)


def _calibrate_reading(bench: Workbench, device: Device) -> None:
    values = samples.counting((3, 4))
    x, other = bench.make(values, device), bench.make(values + 1, device)
    bench.oracle.check_bytes(x, values.tobytes(), f"the probe's own tensor on {device}")
    assert bench.probe.read(other) != bench.probe.read(x), f"{device}: all tensors read alike"
    expected = {
        "transposed": values.T, "sliced": values[1:, ::2],
        "broadcast": np.broadcast_to(values, (3, 3, 4)),
    }  # fmt: skip
    views = bench.probe.views(x)
    assert set(views) == set(expected), f"{device}: the probe's views are {sorted(views)}"
    for name, view in views.items():
        where = f"{name} on {device}, from {line_of(bench.probe.views)}"
        bench.oracle.check_bytes(view, expected[name].tobytes(), where)
    _calibrate_more_views(bench, device)


def _calibrate_more_views(bench: Workbench, device: Device) -> None:
    values = samples.counting((3, 2, 3, 4))
    views = bench.probe.more_views(bench.make(values, device))
    for name, view in views.items():
        assert name in drawing.MORE_LAYOUTS, f"{device}: the probe has a view called {name!r}"
        expected = drawing.MORE_LAYOUTS[name](values)
        where = f"{name} on {device}, from {line_of(bench.probe.more_views)}"
        assert tuple(view.shape) == expected.shape, f"{where}: its shape is {tuple(view.shape)}"
        bench.oracle.check_bytes(view, expected.tobytes(), where)
    bench.evidence.add("views", f"{device}: {', '.join(views)}")


def _calibrate_extents(bench: Workbench, device: Device) -> None:
    for size in samples.SIZES:
        x, other = (bench.make(samples.counting((size,)), device) for _ in range(2))
        same = bench.probe.same_memory(x)
        assert same is not x, f"{device}: same_memory returned the same object"
        told = f"{device}, by {line_of(bench.probe.extents)}"
        assert bench.oracle.shares(x, same), f"{told}: a view is reported to have other memory"
        assert not bench.oracle.shares(x, other), (
            f"{told}: two live tensors are reported to share memory"
        )
        bench.oracle.check_room(x, 4 * size, f"{size} elements on {device}")
    for size, offset in itertools.product(samples.SIZES, samples.ALIGNMENTS):
        values = samples.counting((size,))
        on_host = samples.aligned(values, offset)
        x = bench.make(on_host, device)
        on_host[...] = 0  # at once: the probe has copied it
        where = f"{size} elements at 64k + {offset} that the probe put on {device}"
        bench.oracle.check_bytes(x, values.tobytes(), f"{where}, after writing to the array")


def _calibrate_writing(bench: Workbench, device: Device) -> None:
    x = bench.make(samples.counting((3, 4)), device)
    same = bench.probe.same_memory(x)
    bench.probe.write(x, 55)
    written = np.full((3, 4), 55, "float32").tobytes()
    where = f"written on {device} by {line_of(bench.probe.write)}"
    bench.oracle.check_bytes(x, written, where)
    bench.oracle.check_bytes(same, written, f"same_memory, {where}")


def _calibrate_gradient(bench: Workbench, device: Device) -> None:
    values = samples.counting()
    for factor, function in ((1, lambda x: x), (3, lambda x: x + x + x)):
        found = bench.probe.gradient(function, values, device)
        where = f"the gradient of the sum of {factor} times x, by {line_of(bench.probe.gradient)}"
        assert np.array_equal(found, np.full_like(values, factor)), where


@check(required=True, over="devices")
def test_create_and_read_back(bench: Workbench, device: Device) -> None:
    """A tensor made from numbers reads back as those numbers, into separate memory."""
    values = samples.counting()
    x = unidev.array(values, device=device)
    bench.oracle.check_bytes(x, values.tobytes(), f"array on {device}")
    back = unidev.to_numpy(x)
    assert back.dtype == values.dtype, f"{device}: {back.dtype} was read, not {values.dtype}"
    assert np.array_equal(back, values), f"{device}: {back} was read, not {values}"
    assert back.flags.writeable, f"{device}: to_numpy returned a read-only array"
    back[...] = -1
    bench.oracle.check_bytes(x, values.tobytes(), f"{device}, after writing to what was read")


@check(required=True)
def test_globals_restored(bench: Workbench) -> None:
    """No default of the framework changes (device, dtype, placement, random state)."""
    # Else a backend that seeds it would change nothing: it has done so in an earlier check.
    np.random.random()
    before = dict(bench.probe.global_state())
    for device in bench.devices:
        _use_everything(bench, device)
    after = dict(bench.probe.global_state())
    assert after == before, "the framework's defaults have changed"
    bench.evidence.add("unchanged", sorted(before))


def _use_everything(bench: Workbench, device: Device) -> None:
    unidev.seed(1)
    x = unidev.rand((2, 3), device=device)
    with device:
        inside = [unidev.randn(3), unidev.zeros(3), unidev.arange(3), unidev.array([1.0])]
        unidev.copy_to(inside, device)
    check_ends(bench, device, ZeroDivisionError)
    bench.expect(unidev.DeviceError, unidev.copy_to, x, "gpu:4000")
    for other in bench.devices:
        unidev.as_in_device(x, other)
        unidev.to_numpy(unidev.copy_to(x, other))
        unidev.copy_to(x, other, non_blocking=True)
    unidev.synchronize(device)


@check(required=True)
def test_other_backend_imports_nothing(bench: Workbench) -> None:
    """While another backend is selected, nothing of this one's framework is imported."""
    in_use = unidev.zeros(3)
    bench.oracle.check_device(in_use, bench.cpu, "in use here, or the check proves nothing")
    bench.oracle.check_bytes(in_use, bytes(12), "in use here, or the check proves nothing")
    spec = bench.backend.spec
    modules = {cls.__module__ for cls in bench.backend.tensor_types}
    if type(bench.backend).__module__.partition(".")[0] != spec.framework:
        modules.add(spec.framework)  # a framework that is its own plugin is found by its entry
    uses = _USES_NUMPY if spec.framework != "numpy" else _IMPORTS
    # What this backend's simulated GPUs are like, NumPy's may not be.
    plain: dict[str, str] = dict.fromkeys(DETAILS, "")
    found: dict[str, Any] = run_fresh(_WHAT_CAME + uses + _ANSWER, backend="numpy", variables=plain)
    assert found["unidev"], "unidev itself was not imported: the check proves nothing"
    came = sorted(module for module in modules if module in found["modules"])
    assert not came, f"imported, though {spec.name} was not requested: {', '.join(came)}"
    bench.evidence.add("not imported", sorted(modules))
    assert modules <= set(sys.modules), f"the backend itself has not imported {modules}"


_WHAT_CAME = """
import unidev
unidev.list_backends()
"""
_IMPORTS = ""
_USES_NUMPY = """
x = unidev.zeros(3)
unidev.copy_to({"x": x}, unidev.try_gpu())
unidev.list_devices()
assert unidev.active_backend().name == "numpy"
"""
_ANSWER = """
answer({"unidev": "unidev" in sys.modules, "modules": sorted(sys.modules)})
"""
