"""Copies that no gradient passes through.

PyTorch's backend copies by one of two methods; ``change_copies`` puts one function in their place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mutants.mutant import around, replace, torch_mutant

if TYPE_CHECKING:
    from collections.abc import Callable

_GRADIENT = "copy.gradient_reaches_the_source"


def change_copies(backend: Any, change: Callable[[Any, Any], Any]) -> None:
    """Let ``change(x, copy)`` make of each copy of ``x`` what the backend gives."""

    @around(backend)
    def copy_to(copy: Any, self: Any, x: Any, device: Any, non_blocking: bool) -> Any:
        return change(x, copy(self, x, device, non_blocking))

    @replace(backend)
    def copy_if_there(self: Any, x: Any, device: Any) -> Any:
        return None


@torch_mutant("gradients.through_slices")
def gradient_cut_in_copies_of_views(backend):
    """A copied slice leads nowhere: a copy of the storage, which knows nothing of the view."""
    change_copies(backend, lambda x, y: y.detach() if x._is_view() else y)


@torch_mutant(_GRADIENT, profile="tensor")
def gradient_cut_across_devices(backend):
    """Copies are cut where something moves: Paddle's ``_copy_to``."""
    change_copies(backend, lambda x, y: y if x.device == y.device else y.detach())
