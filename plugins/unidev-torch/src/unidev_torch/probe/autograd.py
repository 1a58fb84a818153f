"""Gradients, using torch's own calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from unidev.contract import AutogradProbe
from unidev_torch import probe

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from unidev.contract import Array, Device


class TorchAutogradProbe(AutogradProbe):
    """Uses ``backward``; ``unidev_torch.autograd`` uses ``torch.autograd.grad``."""

    def gradients(
        self,
        function: Callable[..., torch.Tensor],
        arrays: Sequence[Array],
        devices: Sequence[Device],
    ) -> Sequence[torch.Tensor | None]:
        """``x.grad`` after ``backward``."""
        xs = [
            probe.make(array, device).requires_grad_()
            for array, device in zip(arrays, devices, strict=True)
        ]
        total = function(*xs).sum()
        if total.requires_grad:
            total.backward()  # type: ignore[no-untyped-call]
        return [x.grad for x in xs]

    def second_order(
        self, function: Callable[[torch.Tensor], torch.Tensor], array: Array, device: Device
    ) -> torch.Tensor:
        """``backward`` through a gradient made with ``create_graph=True``."""
        x = probe.make(array, device).requires_grad_()
        (first,) = torch.autograd.grad(function(x).sum(), x, create_graph=True)
        first.sum().backward()  # type: ignore[no-untyped-call]
        if x.grad is None:
            raise AssertionError("no second-order gradient reached the source")
        return x.grad

    def is_differentiable(self, x: torch.Tensor) -> bool:
        """``x.requires_grad``."""
        return x.requires_grad
