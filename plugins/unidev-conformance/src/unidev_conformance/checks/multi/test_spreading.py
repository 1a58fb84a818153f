"""``spread``: the layers of one net on several devices. PYTEST_DONT_REWRITE."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import unidev
from unidev import nn
from unidev_conformance.kit.models.differentiating import times, total
from unidev_conformance.running.catalog import check

if TYPE_CHECKING:
    from unidev_conformance.kit.workbench import Workbench

_NEEDS = ("layers", "models")


def _net() -> Any:
    unidev.seed(1)
    return nn.sequential(
        nn.dense(4, 8), nn.tanh(), nn.dense(8, 8), nn.batch_norm(8), nn.relu(), nn.dense(8, 2)
    )


def _x(bench: Workbench, device: Any) -> Any:
    return bench.make(np.arange(12, dtype="float32").reshape(3, 4) / 8 - 0.5, device)


@check(required=True, needs=_NEEDS)
def test_outputs(bench: Workbench) -> None:
    """Layers lie in order; outputs have the bits of one device; ``place`` brings them together.

    A replica is on one device, as is what it computes, in the mode of the original.
    """
    devices = bench.several(3)[-3:]
    for at in (None, [1, 5]):
        net, alone = _net(), unidev.place(_net(), devices[-1])
        assert bench.works(unidev.spread, net, devices, at=at) is net, "spread gives another object"
        places = [unidev.device_of(x) for x in unidev.parameters(net).values()]
        assert places == sorted(places, key=devices.index), f"not in order: {places}"
        assert set(places) == set(devices), f"only on {set(map(str, places))}"
        error = bench.expect(unidev.DeviceMismatchError, unidev.device_of, net)
        assert len(error.devices) > 3, f"the error has only {error.devices}"
        for model in (net, alone):
            nn.eval_mode(model)
        outputs = bench.works(net, _x(bench, devices[1]))
        bench.oracle.check_device(outputs, devices[-1], "the outputs")
        expected = alone(_x(bench, devices[-1]))
        bench.oracle.check_bytes(outputs, bench.probe.read(expected), "the outputs")
        (copied,) = bench.works(unidev.replicate, net, devices[:1])
        outputs = bench.works(copied, _x(bench, devices[0]))
        bench.oracle.check_device(outputs, devices[0], "the outputs of a replica")
        expected = unidev.place(alone, devices[0])(_x(bench, devices[0]))
        bench.oracle.check_bytes(outputs, bench.probe.read(expected), "the outputs of a replica")
        bench.works(unidev.place, net, devices[0])
        found = unidev.device_of(net)
        assert found is devices[0], f"placed on {devices[0]}, it is on {found}"
        bench.oracle.check_device(net(_x(bench, devices[0])), devices[0], "together again")


@check(required=True, needs=(*_NEEDS, "autograd"))
def test_steps(bench: Workbench) -> None:
    """A net that is spread trains as on one device."""
    devices = bench.several(3)[-3:]
    net, alone = bench.works(unidev.spread, _net(), devices), unidev.place(_net(), devices[-1])

    def loss_of(model: Any, x: Any) -> Any:
        y = model(x)
        return total(times(y, y))

    for _ in range(5):
        for model, device in ((net, devices[0]), (alone, devices[-1])):
            _, gradients = bench.works(unidev.value_and_grad(loss_of), model, _x(bench, device))
            unidev.sgd(model, gradients, lr=0.01)
    for name, x in unidev.parameters(net).items():
        found, expected = (
            np.frombuffer(bench.probe.read(each), "float32")
            for each in (x, unidev.parameters(alone)[name])
        )
        assert np.allclose(found, expected, atol=1e-5), f"{name} differs from that of one device"


@check(required=True, needs=(*_NEEDS, "probe.models.joining"))
def test_what_flows(bench: Workbench) -> None:
    """Containers that flow from one layer to the next are moved with all tensors in them."""
    devices = bench.several(2)[-2:]
    net, alone = (bench.probe.models.joining() for _ in range(2))
    bench.works(unidev.spread, net, devices)
    found = bench.works(net, _x(bench, devices[0]))
    bench.oracle.check_device(found, devices[-1], "the outputs of a net that passes pairs on")
    expected = unidev.to_numpy(alone(_x(bench, bench.cpu)))
    off = float(abs(unidev.to_numpy(found) - expected).max())
    assert off < 1e-5, f"a net that passes pairs on, spread: the outputs are off by {off:g}"


@check(required=True, needs=_NEEDS)
def test_errors(bench: Workbench) -> None:
    """Models without an order, and cuts or devices that do not fit, are refused and not moved."""
    devices = bench.several(3)
    net, spread, shared = _net(), unidev.spread, nn.dense(4, 4)
    for model in (nn.dense(2, 2), nn.sequential(shared, nn.relu(), shared)):
        bench.expect(unidev.UnsupportedOperation, spread, model, devices[:2])
        assert unidev.device_of(model) is bench.cpu, "a refused model was moved"
    for wrong in ([0, 3], [6], [3, 4], [True], "1"):
        bench.expect(unidev.InvalidDataError, spread, net, devices[:2], at=wrong)
    bench.expect(unidev.InvalidDataError, spread, net, devices[:1] * 7)
    bench.expect(unidev.DeviceSpecError, spread, net, [])
    assert unidev.device_of(net) is bench.cpu, "a refused model was moved"
