"""Gradients for the conformance suite, using Paddle's own calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unidev.contract import AutogradProbe
from unidev_paddle.framework import paddle

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from unidev.contract import Array, Device, Tensor


class PaddleAutogradProbe(AutogradProbe):
    """Uses ``backward`` and ``paddle.grad``."""

    def gradients(
        self, function: Callable[..., Tensor], arrays: Sequence[Array], devices: Sequence[Device]
    ) -> Sequence[Tensor | None]:
        """``backward``, then ``x.grad``."""
        xs = [_made(array, device) for array, device in zip(arrays, devices, strict=True)]
        result = function(*xs)
        if not result.stop_gradient:
            result.sum().backward()
        return [x.grad for x in xs]

    def second_order(
        self, function: Callable[[Tensor], Tensor], array: Array, device: Device
    ) -> Tensor:
        """``create_graph``."""
        x = _made(array, device)
        (gradient,) = paddle.grad(function(x).sum(), [x], create_graph=True)
        (bend,) = paddle.grad(gradient.sum(), [x])
        return bend

    def is_differentiable(self, x: Tensor) -> bool:
        """Not ``stop_gradient``."""
        return not x.stop_gradient


def _made(array: Array, device: Device) -> Tensor:
    return paddle.to_tensor(array, place=device.native, stop_gradient=False)
