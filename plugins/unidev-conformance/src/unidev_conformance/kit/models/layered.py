"""Shared by the checks of layers: inputs, calling a layer, and judging its result.

Inputs are multiples of 1/8 without repetition, so that a wrong order is detected.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import unidev
from unidev_conformance.kit.models.stored_models import values_of

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from unidev.device import Device
    from unidev_conformance.kit.workbench import Workbench

    Array = np.ndarray[Any, Any]
    Model = Any

TOLERANCE = 1e-5
HARDWARE_TOLERANCE = 5e-3
"""On accelerators products may use TensorFloat-32, which has 10 bits."""

IMAGES = (np.random.Generator(np.random.Philox(11)).permutation(2 * 3 * 7 * 6) - 126).astype(
    "float32"
).reshape(2, 3, 7, 6) / np.float32(64)
ROWS = (np.random.Generator(np.random.Philox(12)).permutation(20) - 10).astype("float32").reshape(
    5, 4
) / np.float32(8)


def tolerance(device: Device) -> float:
    """The tolerance on ``device``."""
    is_exact = device.kind == "cpu" or device.is_simulated
    return TOLERANCE if is_exact else HARDWARE_TOLERANCE


def made_on(device: Device, make: Callable[[], Model]) -> Model:
    """The result of ``make``, called within the device's scope."""
    with device:
        return make()


def glorot(shape: tuple[int, ...], fan_in: int, fan_out: int) -> Array:
    """The weight that a layer draws: unidev's next numbers, on the CPU, within Glorot's limits."""
    limit = np.float32((6.0 / (fan_in + fan_out)) ** 0.5)
    drawn = unidev.to_numpy(unidev.rand(shape, device="cpu"))
    found: Array = (drawn * np.float32(2) - np.float32(1)) * limit
    return found


def fill(bench: Workbench, model: Model, names: Container[str] = ("bias",)) -> None:
    """Set these weights to numbers other than their initial 0 and 1."""
    for name, (x, _) in bench.backend.models.stored(model).items():
        if name in names:
            count = int(np.prod(tuple(x.shape)))
            bench.backend.models.write(x, np.linspace(-2, 2.5, count).astype("float32"))


def called(bench: Workbench, layer: Model, values: Array, device: Device) -> Any:
    """The layer's result, within the device's scope, since the layer may have no weights."""
    x = bench.make(values, device)
    with device:
        return bench.works(layer, x)


def check_close(bench: Workbench, y: Any, expected: Array, device: Device, where: str) -> None:
    """``y`` is close to ``expected``, in float32 and of that shape, on ``device``."""
    assert isinstance(y, bench.backend.tensor_types), f"{where}: returns a {type(y).__name__}"
    found = unidev.to_numpy(y)
    assert found.dtype == np.float32, f"{where}: returns {found.dtype} for float32"
    assert found.shape == expected.shape, f"{where}: shape {found.shape}, not {expected.shape}"
    off = float(abs(found - expected).max())
    allowed = tolerance(device) * max(1.0, float(abs(expected).max()))
    assert off <= allowed, (
        f"{where}: off by {off:g}, of {allowed:g} allowed: {found.ravel()[:6].tolist()} instead "
        f"of {expected.ravel()[:6].tolist()}"
    )
    bench.oracle.check_device(y, device, where)
    bench.evidence.add("off by", f"{where}: {off:g}")


def check_layer(
    bench: Workbench,
    make: Callable[[], Model],
    values: Array,
    reference: Callable[[dict[str, Array]], Array],
    name: str,
) -> None:
    """On each device, alone and in ``sequential``, a layer gives the values of ``reference``.

    ``reference`` receives the layer's own numbers, by portable names.
    """
    for device in bench.devices:
        layer = made_on(device, make)
        fill(bench, layer)
        expected = reference(values_of(bench, layer))
        y = called(bench, layer, values, device)
        check_close(bench, y, expected, device, f"{name} on {device}")
        net = unidev.nn.sequential(layer)
        y = called(bench, net, values, device)
        check_close(bench, y, expected, device, f"sequential({name}) on {device}")
        for other in bench.devices:
            if other is not device:
                unidev.place(net, other)
                y = called(bench, net, values, other)
                check_close(bench, y, expected, other, f"{name}, {device} to {other}")
                if unidev.parameters(net):  # it computes where those are, inside no scope, too
                    y = bench.works(net, bench.make(values, other))
                    check_close(bench, y, expected, other, f"{name} on {other}, inside no scope")
                break
