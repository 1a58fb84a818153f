"""Paddle's autograd."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from unidev.contract import Autograd, fork_safe_lock
from unidev_paddle.copying import move_cut
from unidev_paddle.framework import check_building, check_eager, paddle

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from unidev.contract import Tensor


operations: Any = paddle._C_ops

# paddle.grad releases Python's lock and keeps its state in one place per process: two threads
# at once end the process (GeneralGrad in paddle/fluid/eager/general_grad.h, seen in 3.3.1).
# Reentrant, since a hook may call it again.
_one_at_a_time = fork_safe_lock()


class PaddleAutograd(Autograd):
    """Uses ``paddle.grad``, which does not write ``x.grad``."""

    def leaf(self, x: Tensor) -> Tensor:
        """``x`` if it is a leaf that needs a gradient, else a detached leaf that does."""
        check_eager("value_and_grad")
        if x.is_leaf and not x.stop_gradient:
            return x
        cut = x.detach()
        cut.stop_gradient = False
        return cut

    def gradients(
        self, loss_of: Callable[[], Tensor], leaves: Sequence[Tensor]
    ) -> tuple[Tensor, Sequence[Tensor | None]]:
        """Records also inside ``no_grad``."""
        check_eager("value_and_grad")
        with paddle.enable_grad():
            loss = loss_of()
        # A copy: detaching a view gives a view, and a step in place would change the loss.
        cut = loss.detach().clone()
        if loss.stop_gradient:
            return cut, [None] * len(leaves)
        with _one_at_a_time:
            found = paddle.grad([loss], list(leaves), allow_unused=True)
        if self.backend.have_memory(found):  # dense, and all on the CPU
            return cut, found
        return cut, [
            gradient if gradient is None else self._beside(leaf, gradient)
            for leaf, gradient in zip(leaves, found, strict=True)
        ]

    def no_grad(self) -> AbstractContextManager[Any]:
        """``paddle.no_grad``, which applies to this thread."""
        scope: AbstractContextManager[Any] = paddle.no_grad()
        return scope

    def match(self, parameters: Sequence[Tensor], gradients: Sequence[Any]) -> bool:
        """Where all memory is the CPU's; else False."""
        if not (self.backend.have_memory(parameters) and self.backend.have_memory(gradients)):
            return False
        pairs = zip(parameters, gradients, strict=True)
        return all([type(y) is paddle.Tensor and x.shape == y.shape for x, y in pairs])  # noqa: C419

    def descend(
        self, parameters: Sequence[Tensor], gradients: Sequence[Tensor], lr: float
    ) -> Sequence[Tensor]:
        """In place; of values of a program, new ones."""
        if parameters and self.backend.traced(parameters[0]):
            check_building("sgd")
            return [x - g * lr for x, g in zip(parameters, gradients, strict=True)]
        check_eager("sgd")
        may_be_custom = self.backend.device_count("gpu") > 0
        with paddle.no_grad():
            for x, gradient in zip(parameters, gradients, strict=True):
                step = operations.scale(gradient, lr, 0.0, True)
                if may_be_custom and x.place.is_custom_place():
                    # An operation that falls back to the CPU allocates its result, and x would no
                    # longer share its memory; assign_out_ writes a view, such as a weight of an
                    # LSTM, to the start of the memory around it (3.3.1).
                    x.copy_(operations.subtract(x, step), True)
                    x._bump_inplace_version()
                else:
                    operations.subtract_(x, step)
        return parameters

    def _beside(self, leaf: Tensor, gradient: Tensor) -> Tensor:
        # Paddle leaves a sparse embedding's gradient on the CPU if the device is a simulated one.
        device = self.backend.device_of(leaf)
        gradient = gradient if gradient.is_dense() else _of_rows(gradient, leaf)
        if self.backend.device_of(gradient) is device:
            return gradient
        return move_cut(gradient, device.native)


def _of_rows(gradient: Tensor, leaf: Tensor) -> Tensor:
    """A dense gradient from the non-zero rows; a row may occur twice (``sparse=True``)."""
    values = gradient._get_tensor_from_selected_rows()
    rows = np.array(gradient.value().get_selected_rows().rows(), np.int64)
    zeros = operations.full(leaf.shape, 0, values.dtype, values.place)
    return operations.index_add(zeros, paddle.to_tensor(rows, place=values.place), values, 0)
