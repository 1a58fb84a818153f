"""Steps of workers on Paddle whose backward raises."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import paddle

import unidev

if TYPE_CHECKING:
    from collections.abc import Callable

WIDTH = 16


class Passing(paddle.autograd.PyLayer):  # type: ignore[misc]
    """Its input, and something to do in backward."""

    @staticmethod
    def forward(ctx: Any, x: Any, work: Callable[[], None]) -> Any:
        """``x``."""
        ctx.work = work
        return x * 1.0

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        """The gradient, after the work."""
        ctx.work()
        return gradient


def net_of() -> Any:
    """Four layers."""
    paddle.seed(0)
    return paddle.nn.LayerList([paddle.nn.Linear(WIDTH, WIDTH) for _ in range(4)])


def loss_with(work: Callable[[], None]) -> Callable[..., Any]:
    """A loss of the layers, in whose backward ``work`` is done."""

    def loss(net: Any, x: Any) -> Any:
        for number, layer in enumerate(net):
            x = paddle.tanh(layer(x))
            if number == 1:
                x = Passing.apply(x, work)
        return (x * x).mean()

    return loss


def rows() -> Any:
    """This worker's own, of which it has more the higher its rank."""
    rank = unidev.group().rank
    x = np.random.default_rng(rank).random((2 + rank, WIDTH), "float32")
    return unidev.array(x, device=unidev.group().device)


def raising() -> dict[str, Any]:
    """What each worker hears when the second one's third backward raises, and the step after."""
    net = net_of()
    parallel, heard = unidev.DataParallel(net), ""

    def work() -> None:
        raise ValueError("it is enough")

    for number in range(4):
        is_bad = number == 2 and unidev.group().rank == 1
        of = unidev.value_and_grad(loss_with(work if is_bad else lambda: None))
        try:
            loss, _ = of(parallel, rows())
        except (unidev.FrameworkError, unidev.CollectiveError, ValueError) as error:
            heard = f"{type(error).__name__}: {error}"
    return {"heard": heard, "loss": float(loss)}


def refused() -> str:
    """The reason why gradients cannot travel in another dtype."""
    try:
        unidev.DataParallel(net_of(), reduce_dtype="bfloat16")
    except unidev.UnsupportedOperation as error:
        return str(error)
    return "nothing is refused"
