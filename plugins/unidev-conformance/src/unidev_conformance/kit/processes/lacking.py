"""Verbs that find no memory: the error of each, what is as before, and that all works again."""

from __future__ import annotations

import time
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

import unidev
from unidev_conformance.kit.oracle import shown
from unidev_conformance.kit.processes.looking import use
from unidev_conformance.kit.processes.scarcity import scarce, too_much

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from unidev.device import Device
    from unidev_conformance.kit.workbench import Workbench

    Call = Callable[[], object]

_PATIENCE_S = 10.0
"""TensorFlow waits for memory as long as this, each time: after that, no further verb begins."""


class Trial:
    """Lets verbs fail, until that has taken too long."""

    def __init__(self, bench: Workbench) -> None:
        self._bench = bench
        self._end = time.monotonic() + _PATIENCE_S

    def check_verbs(self, device: Device) -> None:
        """Verbs that make tensors on ``device``, or copy to it from the host."""
        nbytes = too_much(device)
        # Neither is ever touched, so the host needs no memory for them.
        host, x = np.empty(nbytes, "uint8"), unidev.empty(nbytes, dtype="uint8", device="cpu")
        small = self._bench.matrix(self._bench.cpu)
        calls: dict[str, Call] = {
            "copy_to": lambda: unidev.copy_to(x, device),
            "copy_to of a list": lambda: unidev.copy_to([small, x], device),
            "array": lambda: unidev.array(host, device=device),
            "empty": lambda: unidev.empty(nbytes, dtype="uint8", device=device),
            "zeros": lambda: unidev.zeros(nbytes // 4, device=device),
            "full": lambda: unidev.full(nbytes // 4, 2.5, device=device),
            "a size beyond 31 bits": lambda: unidev.empty(2**31, dtype="int8", device=device),
            "a size beyond 64 bits": lambda: unidev.zeros((2**31, 2**31), device=device),
            "ones_like": lambda: unidev.ones_like(x, device=device),
        }
        if device.kind == "gpu":
            calls["as_in_device"] = lambda: unidev.as_in_device(x, device)
        else:
            calls["to_numpy"] = lambda: unidev.to_numpy(x)
        self.check(device, calls, {"a tensor beside it": small})

    def check_copies(self, device: Device) -> None:
        """``copy_to`` alone: each failure takes time, to find out who has the memory."""
        x = unidev.empty(too_much(device), dtype="uint8", device="cpu")
        self.check(device, {"copy_to": lambda: unidev.copy_to(x, device)}, {})

    def check(self, device: Device, calls: Mapping[str, Call], beside: Mapping[str, Any]) -> None:
        """Each call raises OutOfDeviceMemoryError, and leaves ``beside`` and the device intact.

        Calls for which no time is left are named in the evidence.
        """
        bench = self._bench
        before = {name: bench.probe.read(x) for name, x in beside.items()}
        with scarce(device, bench.probe):
            for name, call in calls.items():
                if time.monotonic() > self._end:
                    bench.evidence.add("left out", f"{name} on {device}: failures take too long")
                    continue
                self._check_call(name, call, device)
                for what, x in beside.items():
                    where = f"{what}, after {name} found no memory on {device}"
                    bench.oracle.check_content(bench.probe.read(x), before[what], where)
            self._check_usable(device, f"{device}, while memory is scarce")
        self._check_usable(device, f"{device}, after it ran out of memory")

    def _check_call(self, name: str, call: Call, device: Device) -> None:
        call.__name__ = f"{name} on {device}"  # in the message
        error = self._bench.expect(unidev.OutOfDeviceMemoryError, call)
        assert error.device is device, f"{name} on {device}: the error names {error.device}"

    def _check_usable(self, device: Device, where: str) -> None:
        found = self._bench.works(use, device)
        assert found == [1.0, 2.0], f"{where}: a small tensor is {found}"


def check_card(bench: Workbench, device: Device) -> None:
    """All verbs on one GPU that is hardware; in the end, what did not fit fits."""
    Trial(bench).check_verbs(device)
    bench.works(unidev.empty, too_much(device), dtype="uint8", device=device)


def check_place(bench: Workbench, device: Device) -> None:
    """``place`` of a model some of whose layers fit, on a GPU that is hardware."""
    net = unidev.nn.sequential(*(_layer(too_much(device) // 4) for _ in range(5)))
    before = _state(bench, net)
    bench.works(use, device)
    with scarce(device, bench.probe):
        bench.expect(unidev.OutOfDeviceMemoryError, unidev.place, net, device)
        after = _state(bench, net)
        changed = [name for name, state in before.items() if after.get(name) != state]
        assert not changed, f"after there was no memory on {device}: {changed} are not as before"
    bench.works(unidev.place, net, device)
    for name, x in bench.backend.models.tensors(net).items():
        bench.oracle.check_device(x, device, f"{name}, placed once there was memory")
    crcs = {name: crc for name, (*_, crc) in _state(bench, net).items()}
    assert crcs == {name: crc for name, (*_, crc) in before.items()}, "the values have changed"


def _layer(nbytes: int) -> Any:
    return unidev.nn.dense(1024, nbytes // 4096, bias=False)


def _state(bench: Workbench, net: Any) -> dict[str, tuple[Device, str, int]]:
    """Where each tensor is, and a checksum of its values."""
    return {
        name: (
            unidev.device_of(x), shown(bench.oracle.storage(x)), zlib.crc32(bench.probe.read(x)),
        )
        for name, x in bench.backend.models.tensors(net).items()
    }  # fmt: skip
