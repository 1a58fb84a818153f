"""Paddle's autograd."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from unidev.contract import Autograd
from unidev_paddle.copying import move_cut
from unidev_paddle.importing import import_paddle
from unidev_paddle.refusals import check_eager

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    Tensor = Any

paddle: Any = import_paddle()
operations: Any = paddle._C_ops

# paddle.grad lets go of Python's lock and keeps its notes where there is one place for the process:
# from two threads at once it ends the process (GeneralGrad in paddle/fluid/eager/general_grad.h,
# seen in 3.3.1). A hook may come back to it.
_one_at_a_time = threading.RLock()


class PaddleAutograd(Autograd):
    """By ``paddle.grad``, which writes no ``x.grad``."""

    def leaf(self, x: Tensor) -> Tensor:
        """``x`` if it is a leaf that is not stopped, else a detached tensor that is."""
        check_eager("value_and_grad")
        if x.is_leaf and not x.stop_gradient:
            return x
        cut = x.detach()
        cut.stop_gradient = False
        return cut

    def gradients(
        self, loss_of: Callable[[], Tensor], leaves: Sequence[Tensor]
    ) -> tuple[Tensor, Sequence[Tensor | None]]:
        """Recorded inside ``no_grad`` too."""
        check_eager("value_and_grad")
        with paddle.enable_grad():
            loss = loss_of()
        # A copy: of a view, detach is one too, and a step in place would change the loss.
        cut = loss.detach().clone()
        if loss.stop_gradient:
            return cut, [None] * len(leaves)
        with _one_at_a_time:
            found = paddle.grad([loss], list(leaves), allow_unused=True)
        return cut, [
            slope if slope is None else self._beside(leaf, slope)
            for leaf, slope in zip(leaves, found, strict=True)
        ]

    def no_grad(self) -> AbstractContextManager[Any]:
        """Of this thread."""
        scope: AbstractContextManager[Any] = paddle.no_grad()
        return scope

    def descend(
        self, parameters: Sequence[Tensor], gradients: Sequence[Tensor], lr: float
    ) -> Sequence[Tensor]:
        """In place."""
        check_eager("sgd")
        with paddle.no_grad():
            for x, slope in zip(parameters, gradients, strict=True):
                step = operations.scale(slope, lr, 0.0, True)
                if x.place.is_custom_place():
                    # What Paddle computes on the CPU for a device gets new memory, and x would part
                    # from what shares its own; assign keeps it.
                    operations.assign_out_(operations.subtract(x, step), x)
                else:
                    operations.subtract_(x, step)
        return parameters

    def _beside(self, leaf: Tensor, slope: Tensor) -> Tensor:
        # Of an embedding's weight on a simulated device, Paddle leaves the gradient on the CPU.
        device = self.backend.device_of(leaf)
        slope = slope if slope.is_dense() else _of_rows(slope, leaf)
        if self.backend.device_of(slope) is device:
            return slope
        return move_cut(slope, device.native)


def _of_rows(slope: Tensor, leaf: Tensor) -> Tensor:
    """Dense, of the rows that are not zero, in which one may stand twice (``sparse=True``)."""
    values = slope._get_tensor_from_selected_rows()
    rows = np.array(slope.value().get_selected_rows().rows(), np.int64)
    zeros = operations.full(leaf.shape, 0, values.dtype, values.place)
    return operations.index_add(zeros, paddle.to_tensor(rows, place=values.place), values, 0)
