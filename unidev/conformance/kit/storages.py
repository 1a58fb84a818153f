"""The extents of views: those of the complete storage, however deep the views are nested."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unidev.conformance.kit.inputs import samples
from unidev.conformance.kit.oracle import shown
from unidev.contract.backend import Unsupported

if TYPE_CHECKING:
    from unidev.conformance.kit.workbench import Workbench
    from unidev.contract.device import Device

_DEPTH = 20
"""Of views of views."""


def check_nested_views(bench: Workbench, device: Device) -> None:
    """A view of a view of a view has the extents of the first tensor, at any depth."""
    x = bench.make(samples.counting((6, 5)), device)
    view = bench.probe.views(x)["sliced"]
    for depth in range(1, _DEPTH):
        view = bench.probe.same_memory(bench.probe.views(view)["transposed"])
        check_storage(bench, x, view, f"a slice, transposed {depth} times, on {device}")


def check_storage(bench: Workbench, x: Any, view: Any, where: str) -> None:
    """``view``, if it is one, has the extents of ``x``: the complete storage, not its own part.

    Where tensors are immutable, it makes no difference, and frameworks may not report it.
    """
    if not isinstance(bench.probe.write, Unsupported) and bench.oracle.shares(x, view):
        of_whole, of_view = (list(bench.backend.extents(each)) for each in (x, view))
        assert of_view == of_whole, (
            f"{where}: the extents of the view are {shown(of_view)}, not those of its storage, "
            f"{shown(of_whole)}"
        )
