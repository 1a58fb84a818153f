"""Moving a Paddle tensor to another device so that its gradient finds the way back.

Paddle's own calls do not: ``x.to(place)`` and ``x.cpu()`` give a tensor that says
``stop_gradient=False`` and whose gradient never reaches ``x`` (seen in 3.3.1).
"""

from __future__ import annotations

from typing import Any

from unidev_paddle.importing import import_paddle

paddle: Any = import_paddle()

copy_cut = paddle._C_ops.copy_to
"""``copy_cut(x, place, blocking)``: fresh memory, dense, a plain Tensor, no gradient.

Not public. ``x._copy_to``, which is not either, gives a Parameter of a Parameter.
"""


def move_cut(x: Any, place: Any) -> Any:
    """``x`` in new memory at ``place``, without a gradient. Blocks."""
    source = x.place
    if source.is_custom_place() and place.is_custom_place():
        here, there = source.custom_device_type(), _custom_type(place)
        if here != there:  # Paddle copies between plug-in devices of one type only
            x = copy_cut(x, paddle.CPUPlace(), True)
    return copy_cut(x, place, True)


def _custom_type(place: Any) -> str:
    return str(place.get_device_type())


class Move(paddle.autograd.PyLayer):  # type: ignore[misc]  # Paddle is untyped here
    """``move_cut`` with a gradient, also a gradient of the gradient."""

    @staticmethod
    def forward(ctx: Any, x: Any, place: Any) -> Any:
        """Copy there."""
        ctx.source = x.place
        return move_cut(x, place)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        """Copy back."""
        if gradient.place == ctx.source:
            return gradient
        return Move.apply(gradient, ctx.source)
