"""Gradients, by torch's own calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from unidev.contract import AutogradProbe
from unidev_torch import probe

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np

    from unidev.contract import Device

    Array = np.ndarray[Any, Any]


class TorchAutogradProbe(AutogradProbe):
    """Through ``backward``, where ``unidev_torch.autograd`` asks for gradients by name."""

    def gradients(
        self,
        function: Callable[..., torch.Tensor],
        arrays: Sequence[Array],
        devices: Sequence[Device],
    ) -> Sequence[torch.Tensor | None]:
        """What ``backward`` leaves in ``x.grad``."""
        xs = [
            probe.make(array, device).requires_grad_()
            for array, device in zip(arrays, devices, strict=True)
        ]
        total = function(*xs).sum()
        if total.requires_grad:
            total.backward()  # type: ignore[no-untyped-call]
        return [x.grad for x in xs]

    def detach(self, x: torch.Tensor) -> torch.Tensor:
        """``x.detach()``."""
        return x.detach()

    def second_order(
        self, function: Callable[[torch.Tensor], torch.Tensor], array: Array, device: Device
    ) -> torch.Tensor:
        """``backward`` through a gradient of which a graph was made."""
        x = probe.make(array, device).requires_grad_()
        (first,) = torch.autograd.grad(function(x).sum(), x, create_graph=True)
        first.sum().backward()  # type: ignore[no-untyped-call]
        if x.grad is None:
            raise AssertionError("no gradient of the gradient reached the source")
        return x.grad

    def is_differentiable(self, x: torch.Tensor) -> bool:
        """``x.requires_grad``."""
        return x.requires_grad
