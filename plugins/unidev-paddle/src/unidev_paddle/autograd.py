"""Paddle's autograd."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from unidev.contract import Autograd, fork_safe_lock, nested_backward, nodes_from
from unidev_paddle.copying import move_cut
from unidev_paddle.framework import check_building, check_eager, paddle, symbolic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
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
        if not isinstance(x, paddle.Tensor):  # of a program that is no longer being built
            raise symbolic(x)
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
            stored = _stored(loss, leaves)
            found = paddle.grad([loss], list(leaves), allow_unused=True)
            is_nested = _put_back(stored)
        if is_nested or True in [x is None for x in found]:
            _check_all_came(loss, leaves, () if is_nested else found)
        if not self.backend.have_memory(found):  # not dense, or not all on the CPU
            found = [
                gradient if gradient is None else self._beside(leaf, gradient)
                for leaf, gradient in zip(leaves, found, strict=True)
            ]
        return cut, _each_its_own(found, leaves)

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


def _stored(loss: Tensor, leaves: Sequence[Tensor]) -> list[tuple[Tensor, Tensor | None]]:
    """Each leaf without a gradient; where a ``PyLayer`` may add to one, also a copy of that."""
    stored = [(x, x._grad_ivar()) for x in leaves]
    watched = [(x, gradient) for x, gradient in stored if gradient is None]
    if len(watched) < len(stored) and next(_custom(loss), None):
        dense = [
            (x, gradient) for x, gradient in stored if gradient is not None and gradient.is_dense()
        ]
        watched += [(x, gradient.clone()) for x, gradient in dense]
    return watched


def _put_back(stored: Sequence[tuple[Tensor, Tensor | None]]) -> bool:
    """Whether gradients have been stored meanwhile, which are then removed."""
    is_changed = False
    for x, before in stored:
        now = x._grad_ivar()
        if before is None and now is not None:
            x.grad, is_changed = None, True
        elif before is not None and before.numpy().tobytes() != now.numpy().tobytes():
            now.copy_(before, True)
            is_changed = True
    return is_changed


def _custom(loss: Tensor, came: Sequence[Any] = ()) -> Iterator[str]:
    for node in nodes_from(loss.grad_fn, _inputs):
        _, is_custom, function = node.name().partition("PyLayer_")
        if is_custom and set(came).isdisjoint(nodes_from(node, _inputs)):
            yield function


def _check_all_came(loss: Tensor, leaves: Sequence[Tensor], found: Sequence[Tensor | None]) -> None:
    """Refuse a ``PyLayer`` whose backward calls ``backward`` for more than its inputs.

    Paddle goes to one only on the way to a leaf, and knows of no way but its inputs. What it uses
    besides is not to be seen: one that was left out may use the leaves that got no gradient.
    """
    came = [x.grad_fn for x, gradient in zip(leaves, found) if gradient is not None]  # noqa: B905
    for function in _custom(loss, came):
        raise nested_backward(function)


def _each_its_own(
    gradients: Sequence[Tensor | None], leaves: Sequence[Tensor]
) -> list[Tensor | None]:
    """Gradients that share no memory, whatever a ``PyLayer`` returns."""
    seen = {x.data_ptr() - x.offset for x in leaves if x.is_dense()}
    own = [x if x is None or x.stop_gradient else x.detach() for x in gradients]
    for number, x in enumerate(own):
        if x is not None:
            address = x.data_ptr() - x.offset
            if address and address in seen:
                own[number] = copied = x.clone()
                address = copied.data_ptr()
            seen.add(address)
    return own


def _inputs(node: Any) -> list[Any]:
    return [each for each in node.next_functions if each is not None]


def _of_rows(gradient: Tensor, leaf: Tensor) -> Tensor:
    """A dense gradient from the non-zero rows; a row may occur twice (``sparse=True``)."""
    values = gradient._get_tensor_from_selected_rows()
    rows = np.array(gradient.value().get_selected_rows().rows(), np.int64)
    zeros = operations.full(leaf.shape, 0, values.dtype, values.place)
    return operations.index_add(zeros, paddle.to_tensor(rows, place=values.place), values, 0)
