"""Copies of the probe's special tensors: variables, strings, sparse ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import unidev
from unidev.conformance.judging.outcomes import NotApplicableError
from unidev.errors import UnsupportedOperation

if TYPE_CHECKING:
    from collections.abc import Callable

    from unidev.conformance.kit.workbench import Workbench
    from unidev.contract.device import Device


def check_specials(bench: Workbench, wanted: Callable[[str], bool]) -> None:
    """Each special tensor whose name is ``wanted`` is copied on its own device.

    Raises:
        NotApplicableError: the probe has none.
    """
    seen = 0
    for device in bench.devices:
        for name, x in bench.probe.specials(device).items():
            if wanted(name.lower()):
                seen += 1
                _check_special(bench, x, device, f"{name} on {device}")
    if not seen:
        raise NotApplicableError("the probe has no such tensors for this framework")


def _check_special(bench: Workbench, x: Any, device: Device, where: str) -> None:
    content = bench.probe.read(x)
    y = unidev.copy_to(x, device)
    assert y is not x, f"{where}: the copy is the source, the same object"
    bench.oracle.check_bytes(y, content, where)
    bench.oracle.check_device(y, device, where)
    try:
        for each in (x, y):  # which may be on different devices, whatever their scope
            bench.probe.extents(each)
    except UnsupportedOperation as refusal:
        # The memory of strings cannot always be probed; values and identity remain.
        bench.evidence.add("no address", f"{where}: {refusal.reason}")
    else:
        bench.oracle.check_disjoint(x, y, where)
