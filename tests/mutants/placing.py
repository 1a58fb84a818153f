"""Copies that land elsewhere than they were sent."""

from __future__ import annotations

from typing import Any

from mutants.mutant import around, mutant


def _send_elsewhere(backend: Any, index: Any) -> None:
    """Let ``index(backend, source, device)`` say to which GPU a copy goes, and claims to go."""

    @around(backend)
    def copy_to(copy: Any, self: Any, x: Any, device: Any, non_blocking: bool) -> Any:
        if device.kind == "gpu":
            device = self.device("gpu", index(self.device_of(x), device))
        return copy(self, x, device, non_blocking)


@mutant("copy.lands_on_the_device_asked_for", "many.all_pairs_copy", simulated_count=3)
def copies_go_to_the_first_gpu(backend):
    """The index is dropped on the way: ``x.to(device.type)``, ``x.cuda()``."""
    _send_elsewhere(backend, lambda source, device: 0)
