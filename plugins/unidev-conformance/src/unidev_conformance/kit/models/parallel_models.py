"""``Parallel``: a sample model at work on several devices, and what its replicas have to be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import unidev
from unidev_conformance.kit.models.sample_models import INPUT, Sample

if TYPE_CHECKING:
    from unidev.device import Device
    from unidev_conformance.kit.workbench import Workbench

ROWS = 7
"""Rows of the inputs: not a multiple of 2 or 3."""


class Parallel:
    """A sample on the first of some devices, and a handle for all of them."""

    def __init__(self, bench: Workbench, devices: list[Device], model: Any = None) -> None:
        self.bench = bench
        self.devices = devices
        self.sample = Sample(bench)
        if model is not None:
            self.sample.model = model
        self.net = bench.works(unidev.DataParallel, self.sample.model, devices, reduction="sum")
        self.sample.device = devices[0]
        self.where = f"DataParallel on {', '.join(map(str, devices))}"

    @property
    def x(self) -> Any:
        """Inputs of another number of rows than the sample's."""
        return self.bench.make(np.resize(INPUT, (ROWS, 4)), self.devices[0])

    def step(self, given: Any = None) -> Any:
        """One step of gradient descent; returns the loss and the gradients."""
        net = self.net if given is None else given
        loss, gradients = self.bench.works(unidev.value_and_grad(self.sample.loss_of), net, self.x)
        self.bench.works(unidev.sgd, net, gradients, lr=0.002)
        return loss, gradients

    def contents(self) -> dict[str, bytes]:
        """The bytes of what is in the model now, without gradients."""
        return {
            name: self.bench.probe.read(x)
            for name, x in self.bench.backend.models.tensors(self.sample.model).items()
            if not name.endswith(".grad")
        }

    def check_replicas(self, what: str) -> None:
        """Each replica has the model's bits, on its device; then the model is as it was."""
        expected = self.contents()
        for index, device in enumerate(self.devices):
            where = f"{self.where}, {what}: replica {index}"
            with self.net.replica(index) as model:
                assert model is self.sample.model, f"{where} is another object"
                assert self.contents() == expected, f"{where} has other bits than the model"
                for name, x in unidev.parameters(model).items():
                    self.bench.oracle.check_device(x, device, f"{where}, {name}")
        assert unidev.device_of(self.net) is self.devices[0], f"{self.where}, {what}: it has moved"
        assert self.contents() == expected, f"{self.where}, {what}: looking has changed it"


def check_close(bench: Workbench, x: Any, expected: Any, where: str) -> None:
    """``x`` is close to ``expected``, which one device has computed."""
    found, wanted = (np.frombuffer(bench.probe.read(each), "float32") for each in (x, expected))
    furthest = float(np.abs(found - wanted).max(initial=0) / max(1, np.abs(wanted).max(initial=0)))
    assert furthest < 1e-5, f"{where}: {furthest:g} away from that of one device"
    bench.evidence.add("distance", f"{where}: {furthest:g}")
