"""Shared memory: a view has the extents of the complete storage, at any depth."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import unidev
from unidev_conformance.kit.inputs import samples

if TYPE_CHECKING:
    from unidev.device import Device
    from unidev_conformance.kit.workbench import Workbench

_DEPTH = 20
"""How deep views of views go."""


def check_storages(bench: Workbench, device: Device) -> None:
    """Check ``shares_memory`` and ``extents`` on views, on copies, and on views of views."""
    _check_nested_views(bench, device)
    seen = set()
    for case in bench.drawn(device, is_large=False):
        x = case.make(bench.probe, device)
        view, copied = case.laid_out(bench.probe, x), unidev.copy_to(x, device)
        named = {"the tensor": x, case.layout: view, "a copy": copied}
        named["the same"] = bench.probe.same_memory(view)
        for (one, a), (other, b) in itertools.combinations_with_replacement(named.items(), 2):
            expected = bench.oracle.shares(a, b)
            found = unidev.shares_memory(a, b), unidev.shares_memory(b, a)
            where = f"{case} on {device}, {one} and {other}"
            assert found == (expected, expected), f"{where}: {found}, not {expected}"
            seen.add(expected)
        _check_storage(bench, x, view, f"{case} on {device}")
    assert len(seen) == 2, f"on {device} all pairs were {seen}: the check proves nothing"


def _check_nested_views(bench: Workbench, device: Device) -> None:
    """A view of a view of a view has the extents of the first tensor, at any depth."""
    x = bench.make(samples.counting((6, 5)), device)
    view = bench.probe.views(x)["sliced"]
    for depth in range(1, _DEPTH):
        view = bench.probe.same_memory(bench.probe.views(view)["transposed"])
        _check_storage(bench, x, view, f"a slice, transposed {depth} times, on {device}")


def _check_storage(bench: Workbench, x: Any, view: Any, where: str) -> None:
    """``view``, if it is one, has the extents of ``x``: the complete storage, not its own part.

    Where tensors are immutable, it makes no difference, and frameworks may not report it.
    """
    if bench.has("probe.write") and bench.oracle.shares(x, view):
        of_whole, of_view = (list(bench.backend.extents(each)) for each in (x, view))
        assert of_view == of_whole, f"{where}: extents of the view, and those of its storage"
