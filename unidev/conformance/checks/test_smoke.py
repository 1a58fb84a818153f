"""Whether there is anything to judge by, and whether unidev leaves the environment unchanged."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

import unidev
from unidev.conformance.kit import samples
from unidev.conformance.kit.fresh import run_fresh
from unidev.conformance.running.catalog import check
from unidev.contract.backend import Unsupported

if TYPE_CHECKING:
    from unidev.conformance.kit.workbench import Workbench
    from unidev.contract.device import Device


@check(required=True, also_in=("train",))
def test_probe_calibrated(workbench: Workbench) -> None:
    """The probe reports "same" for a view, "different" for live tensors, and reads correctly."""
    for device in workbench.devices:
        _calibrate_reading(workbench, device)
        _calibrate_extents(workbench, device)
        if not isinstance(workbench.probe.write, Unsupported):
            _calibrate_writing(workbench, device)
    if not isinstance(workbench.probe.gradient, Unsupported):
        _calibrate_gradient(workbench, workbench.cpu)


def _calibrate_reading(workbench: Workbench, device: Device) -> None:
    values = samples.counting((3, 4))
    x, other = workbench.make(values, device), workbench.make(values + 1, device)
    workbench.oracle.check_bytes(x, values.tobytes(), f"the probe's own tensor on {device}")
    assert workbench.probe.read(other) != workbench.probe.read(x), (
        f"{device}: all tensors read alike"
    )
    expected = {
        "transposed": values.T, "sliced": values[1:, ::2],
        "broadcast": np.broadcast_to(values, (3, 3, 4)),
    }  # fmt: skip
    views = workbench.probe.views(x)
    assert set(views) == set(expected), f"{device}: the probe's views are {sorted(views)}"
    for name, view in views.items():
        workbench.oracle.check_bytes(view, expected[name].tobytes(), f"{name} on {device}")


def _calibrate_extents(workbench: Workbench, device: Device) -> None:
    values = samples.counting((3, 4))
    for size in samples.SIZES:
        x, other = (workbench.make(samples.counting((size,)), device) for _ in range(2))
        same = workbench.probe.same_memory(x)
        assert same is not x, f"{device}: same_memory returned the same object"
        assert workbench.oracle.shares(x, same), (
            f"{device}: a view is reported to have other memory"
        )
        assert not workbench.oracle.shares(x, other), (
            f"{device}: two live tensors are reported to share memory"
        )
        workbench.oracle.check_room(x, 4 * size, f"{size} elements on {device}")
    on_host = samples.aligned(values, 0)
    x = workbench.make(on_host, device)
    on_host[...] = 0
    workbench.oracle.check_bytes(x, values.tobytes(), f"what the probe made on {device}")


def _calibrate_writing(workbench: Workbench, device: Device) -> None:
    x = workbench.make(samples.counting((3, 4)), device)
    same = workbench.probe.same_memory(x)
    workbench.probe.write(x, 55)
    written = np.full((3, 4), 55, "float32").tobytes()
    workbench.oracle.check_bytes(x, written, f"written by the probe on {device}")
    workbench.oracle.check_bytes(same, written, f"written through another name on {device}")


def _calibrate_gradient(workbench: Workbench, device: Device) -> None:
    values = samples.counting()
    for factor, function in ((1, lambda x: x), (3, lambda x: x + x + x)):
        found = workbench.probe.gradient(function, values, device)
        assert np.array_equal(found, np.full_like(values, factor)), (
            f"the gradient of the sum of {factor} times x is {found}"
        )


@check(required=True)
def test_create_and_read_back(workbench: Workbench) -> None:
    """A tensor made from numbers reads back as those numbers, into separate memory."""
    values = samples.counting()
    for device in workbench.devices:
        x = unidev.array(values, device=device)
        workbench.oracle.check_bytes(x, values.tobytes(), f"array on {device}")
        back = unidev.to_numpy(x)
        assert back.dtype == values.dtype, f"{device}: {back.dtype} was read, not {values.dtype}"
        assert np.array_equal(back, values), f"{device}: {back} was read, not {values}"
        assert back.flags.writeable, f"{device}: to_numpy returned a read-only array"
        back[...] = -1
        workbench.oracle.check_bytes(
            x, values.tobytes(), f"{device}, after writing to what was read"
        )


@check(required=True)
def test_globals_restored(workbench: Workbench) -> None:
    """No default of the framework changes (device, dtype, placement, random state)."""
    before = dict(workbench.probe.global_state())
    for device in workbench.devices:
        _use_everything(workbench, device)
    after = dict(workbench.probe.global_state())
    changed = [name for name in before if before[name] != after.get(name)]
    assert before == after, "changed: " + "; ".join(
        f"{name}: {_shown(before[name])} became {_shown(after.get(name))}" for name in changed
    )
    workbench.evidence.add("unchanged", sorted(before))


def _use_everything(workbench: Workbench, device: Device) -> None:
    unidev.seed(1)
    x = unidev.rand((2, 3), device=device)
    with device:
        inside = [unidev.randn(3), unidev.zeros(3), unidev.arange(3), unidev.array([1.0])]
        unidev.copy_to(inside, device)
    workbench.expect(ZeroDivisionError, _fail_within, device)
    workbench.expect(unidev.DeviceError, unidev.copy_to, x, "gpu:4000")
    for other in workbench.devices:
        unidev.as_in_device(x, other)
        unidev.to_numpy(unidev.copy_to(x, other))
    unidev.synchronize(device)


def _fail_within(device: Device) -> None:
    with device:
        unidev.zeros(3)
        raise ZeroDivisionError("as a user's own code may, within the scope")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) < 80 else text[:77] + "…"


@check(required=True)
def test_other_backend_imports_nothing(workbench: Workbench) -> None:
    """While another backend is selected, nothing of this one's framework is imported."""
    in_use = unidev.zeros(3)
    workbench.oracle.check_device(in_use, workbench.cpu, "in use here, or the check proves nothing")
    workbench.oracle.check_bytes(in_use, bytes(12), "in use here, or the check proves nothing")
    spec = workbench.backend.spec
    modules = {cls.__module__ for cls in workbench.backend.tensor_types}
    if type(workbench.backend).__module__.partition(".")[0] != spec.framework:
        modules.add(spec.framework)  # a framework that is its own plugin is found by its entry
    uses = _USES_NUMPY if spec.framework != "numpy" else _IMPORTS
    found: dict[str, Any] = run_fresh(_WHAT_CAME + uses + _ANSWER, backend="numpy")
    assert found["unidev"], "unidev itself was not imported: the check proves nothing"
    came = sorted(module for module in modules if module in found["modules"])
    assert not came, f"imported, though {spec.name} was not requested: {', '.join(came)}"
    workbench.evidence.add("not imported", sorted(modules))
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
