"""Copies of what the probe knows besides plain tensors: variables, strings, sparse ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import unidev
from unidev.conformance.judging.outcomes import NotApplicableError
from unidev.errors import UnsupportedOperation

if TYPE_CHECKING:
    from collections.abc import Callable

    from unidev.conformance.kit.workbench import Bench
    from unidev.contract.device import Device


def check_specials(bench: Bench, wanted: Callable[[str], bool]) -> None:
    """Each special tensor whose name is ``wanted`` is copied on its own device.

    Raises:
        NotApplicableError: the probe knows none.
    """
    seen = 0
    for device in bench.devices:
        for name, x in bench.probe.specials(device).items():
            if wanted(name.lower()):
                seen += 1
                _check_special(bench, x, device, f"{name} on {device}")
    if not seen:
        raise NotApplicableError("the probe knows no such tensors of this framework")


def _check_special(bench: Bench, x: Any, device: Device, where: str) -> None:
    content = bench.probe.read(x)
    y = unidev.copy_to(x, device)
    assert y is not x, f"{where}: the copy is the source, the very same object"
    bench.oracle.check_bytes(y, content, where)
    bench.oracle.check_device(y, device, where)
    try:
        bench.probe.extents(x)
    except UnsupportedOperation as refusal:
        # Memory of strings cannot be probed everywhere; values and identity are what is left.
        bench.evidence.add("no address", f"{where}: {refusal.reason}")
    else:
        bench.oracle.check_disjoint(x, y, where)
