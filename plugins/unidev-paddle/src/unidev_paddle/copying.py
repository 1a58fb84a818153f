"""Moving a Paddle tensor to another device so that its gradient flows back; sparse ones by parts.

Paddle's own calls do not: ``x.to(place)`` and ``x.cpu()`` return a tensor that has
``stop_gradient=False`` but whose gradient never reaches ``x`` (seen in 3.3.1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unidev.errors import UnsupportedOperation
from unidev_paddle.framework import not_dense, paddle

if TYPE_CHECKING:
    from collections.abc import Callable

    from unidev.contract import Tensor


copy_cut = paddle._C_ops.copy_to
"""``copy_cut(x, place, blocking)``: new memory, dense, a plain Tensor, no gradient.

Not public. Neither is ``x._copy_to``, which returns a Parameter for a Parameter.
"""


def empty_at(shape: Any, dtype: Any, place: Any) -> Any:
    """A tensor of this shape with uninitialised memory."""
    made = paddle._C_ops.empty(shape, dtype, place)
    if 0 in shape and hash(made.place) != hash(place):
        # For complex dtypes Paddle allocates on the host, and leaves an empty tensor there.
        return copy_cut(made, place, True)
    return made


def move_cut(x: Any, place: Any) -> Any:
    """``x`` in new memory at ``place``, without a gradient. Blocks."""
    if 0 in x.shape:
        # Paddle's own copy of an empty view recurses until the stack overflows (seen in 3.3.1,
        # x[x.shape[0]:] on any accelerator).
        return empty_at(x.shape, x.dtype, place)
    here = x.place
    if here.is_custom_place() and place.is_custom_place():
        # Paddle copies only between plug-in devices of the same type.
        is_one_type = here.custom_device_type() == place.custom_device_type()
        x = x if is_one_type else copy_cut(x, paddle.CPUPlace(), True)
    return copy_cut(x, place, True)


class Move(paddle.autograd.PyLayer):  # type: ignore[misc]  # Paddle is untyped here
    """``move_cut`` with a gradient, including higher-order gradients."""

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


def sparse_parts(x: Tensor) -> list[Tensor]:
    """The dense tensors of a sparse ``x``: its indices, then its values.

    Raises:
        UnsupportedOperation: ``x`` is another kind of tensor that is not dense.
    """
    if x.is_dist():
        raise not_dense(x)
    if x.is_sparse_coo():
        return [x.indices(), x.values()]
    if x.is_sparse_csr():
        return [x.crows(), x.cols(), x.values()]
    raise not_dense(x)


def copied_sparse(x: Tensor, copy: Callable[[Tensor], Tensor]) -> Tensor:
    """A sparse tensor of copies of the parts of ``x``.

    Raises:
        UnsupportedOperation: as ``sparse_parts``; or a CSR tensor has a gradient, which Paddle
            could not take back to it.
    """
    found = sparse_parts(x)
    if x.is_sparse_coo():
        indices, values = map(copy, found)
        return paddle._C_ops.sparse_sparse_coo_tensor(values, indices, x.shape)
    if paddle.is_grad_enabled() and not x.stop_gradient:
        raise UnsupportedOperation(
            "copying a CSR tensor with a gradient",
            "Paddle records how COO tensors are made, and not how these are: copy "
            "x.to_sparse_coo(2), or x.detach()",
        )
    crows, columns, values = map(copy, found)
    return paddle.base.core.eager.sparse_csr_tensor(crows, columns, values, x.shape, True)
