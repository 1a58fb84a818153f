"""unidev's functions inside one that the framework's compiler compiles. PYTEST_DONT_REWRITE."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import unidev
from unidev_conformance.kit.models.differentiating import check_gradient, wholes
from unidev_conformance.running.catalog import check

if TYPE_CHECKING:
    from unidev.device import Device
    from unidev_conformance.kit.workbench import Workbench

_LR = 0.5
_DIFFERENTIATE, _DESCEND = unidev.value_and_grad, unidev.sgd
"""By names of this module: a compiler would follow the import that ``unidev.sgd`` may begin."""


def _step(x: Any, unused: Any, left: Any, right: Any) -> Any:
    """A whole step: the loss, the gradients, and the parameters afterwards."""
    parameters = (x, unused)
    loss, gradients = _DIFFERENTIATE(_squares)(parameters, left, right)
    return loss, gradients, _DESCEND(parameters, gradients, lr=_LR)


def _squares(parameters: Any, left: Any, right: Any) -> Any:
    x, _ = parameters
    return left @ (x * x) @ right


def _likenesses(x: Any) -> Any:
    return unidev.zeros_like(x), unidev.ones_like(x)


@check(required=True, needs=("autograd", "probe.compile"))
def test_a_step(bench: Workbench) -> None:
    """``value_and_grad`` and ``sgd`` inside a compiled function compute with each call's values."""
    device = bench.devices[-1]
    compiled = bench.probe.compile(_step)
    left = bench.make(np.ones((1, 2), "float32"), device)
    right = bench.make(np.ones((3, 1), "float32"), device)
    for start in (1, 2):
        values, others = wholes(2, 3, start=start), wholes(3, 2)
        x, unused = bench.make(values, device), bench.make(others, device)
        with device:  # some compiled functions run where the scope is, not where arguments are
            loss, (by_x, by_unused), new = bench.works(compiled, x, unused, left, right)
        where = f"a compiled step on {device}, call {start}"
        expected = np.full((1, 1), (values * values).sum(), "float32")
        bench.oracle.check_bytes(loss, expected.tobytes(), f"{where}: the loss")
        check_gradient(bench, by_x, 2 * values, device, where)
        check_gradient(bench, by_unused, 0 * others, device, f"{where}, of what is not used")
        for y, numbers in zip(new, (values - _LR * 2 * values, others), strict=True):
            bench.oracle.check_bytes(y, numbers.tobytes(), f"{where}: a parameter after it")


@check(required=True, needs=("probe.compile",))
def test_copies(bench: Workbench) -> None:
    """``copy_to`` inside a compiled function copies to memory that shares nothing with ``x``."""
    device = bench.devices[-1]

    def copied(x: Any) -> Any:
        return unidev.copy_to(x, device)

    compiled = bench.probe.compile(copied)
    for start in (1, 2):
        x = bench.make(wholes(2, 3, start=start), device)
        with device:
            y = bench.works(compiled, x)
        bench.oracle.check_copy(x, y, device, f"a compiled copy on {device}, call {start}")


@check(required=True, needs=("probe.compile",), over="neighbours")
def test_named_devices(bench: Workbench, source: Device, target: Device) -> None:
    """What a compiled function makes on a device is there, or the framework raises."""

    def made(x: Any) -> Any:
        return unidev.copy_to(x, target), unidev.full((2, 3), 1.0, device=target)

    x = bench.make(wholes(2, 3), source)
    refusals: tuple[type[Exception], ...] = (unidev.UnidevError, *bench.backend.framework_errors)
    try:
        with target:
            found = bench.probe.compile(made)(x)
    except refusals:
        assert source is not target, f"{target} in a function compiled for that device: an error"
        return
    for y, what in zip(found, ("copy_to", "full"), strict=True):
        bench.oracle.check_device(y, target, f"{what} to {target} in a function of {source}")


@check(required=True, needs=("probe.compile",))
def test_likenesses(bench: Workbench) -> None:
    """``zeros_like`` and ``ones_like`` inside a compiled function have the argument's device."""
    device = bench.devices[-1]
    compiled = bench.probe.compile(_likenesses)
    x = bench.make(wholes(2, 3), device)
    with device:
        made = bench.works(compiled, x)
    for value, y in enumerate(made):
        where = f"a tensor like a traced one on {device}"
        bench.oracle.check_kind(x, y, where)
        bench.oracle.check_device(y, device, where)
        bench.oracle.check_bytes(y, np.full((2, 3), value, "float32").tobytes(), where)
