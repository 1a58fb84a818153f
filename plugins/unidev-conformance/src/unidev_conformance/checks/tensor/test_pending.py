"""Tensors yet to compute: looking computes nothing, a copy does. PYTEST_DONT_REWRITE."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import unidev
from unidev_conformance.kit.inputs import samples
from unidev_conformance.running.catalog import check

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from unidev.device import Device
    from unidev_conformance.kit.workbench import Workbench


def _pending(bench: Workbench, device: Device) -> tuple[Any, bytes]:
    """A tensor that is not computed yet, and the bytes that it will have."""
    x = bench.probe.pending(bench.matrix(device))
    assert bench.probe.is_pending(x), f"on {device}: the probe's pending tensor is computed already"
    return x, (samples.counting() + 1).tobytes()


@check(required=True, needs=("probe.pending",), over="devices")
def test_looking_computes_nothing(bench: Workbench, device: Device) -> None:
    """Where a tensor is, whether it is one, and that it is there already: all known before."""
    looks: Mapping[str, Callable[[Any], object]] = {
        "is_tensor": unidev.is_tensor,
        "device_of": lambda x: unidev.device_of(x) is device,
        "device_of a container": lambda x: unidev.device_of([x, x]) is device,
        "same_device": unidev.same_device,
        "as_in_device": lambda x: unidev.as_in_device(x, device) is x,
        "as_in_device of a container": lambda x: unidev.as_in_device([x], device)[0] is x,
        "shares_memory": lambda x: not unidev.shares_memory(x, bench.matrix(device)),
    }
    for name, look in looks.items():
        x, content = _pending(bench, device)
        bench.works(unidev.check_same_device, x=x)
        assert bench.works(look, x), f"{name} of a pending tensor on {device} is wrong"
        assert bench.probe.is_pending(x), f"{name} has computed a pending tensor on {device}"
        bench.oracle.check_bytes(x, content, f"a pending tensor on {device}, after {name}")


@check(required=True, needs=("probe.pending",), over="ring")
def test_copies_are_computed(bench: Workbench, source: Device, target: Device) -> None:
    """A copy of a pending tensor is true, and waits for nothing: it has memory, and its values."""
    where = f"a pending tensor, {source} to {target}"
    for by in (unidev.copy_to, lambda x, to: unidev.copy_to({"x": x}, to, non_blocking=True)["x"]):
        x, content = _pending(bench, source)
        y = bench.works(by, x, target)
        assert not bench.probe.is_pending(y), f"{where}: the copy is pending, too"
        bench.oracle.check_bytes(y, content, where)
        bench.oracle.check_device(y, target, where)
        bench.oracle.check_disjoint(x, y, where)
        bench.oracle.check_bytes(x, content, f"{where}, the source")


@check(required=True, needs=("probe.pending", "probe.gradient"), over="ring")
def test_gradient_of_a_copy(bench: Workbench, source: Device, target: Device) -> None:
    """The gradient flows through a copy of what is pending, as through any other."""
    values = samples.counting()
    where = f"a copy of a pending tensor, {source} to {target}"

    def copied(x: Any) -> Any:
        return unidev.copy_to(bench.probe.pending(x), target)

    found = bench.works(bench.probe.gradient, copied, values, source)
    assert found is not None, f"{where}: no gradient reaches the source"
    assert np.array_equal(found, np.ones_like(values)), f"{where}: the gradient is {found}, not 1"
