"""Sparse tensors: their parts, and copies of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unidev.errors import UnsupportedOperation
from unidev_paddle.framework import paddle
from unidev_paddle.refusals import not_dense

if TYPE_CHECKING:
    from collections.abc import Callable

    Tensor = Any


def parts(x: Tensor) -> list[Tensor]:
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


def copied(x: Tensor, copy: Callable[[Tensor], Tensor]) -> Tensor:
    """A sparse tensor of copies of the parts of ``x``.

    Raises:
        UnsupportedOperation: as ``parts``; or a CSR tensor has a gradient, which Paddle could not
            take back to it.
    """
    found = parts(x)
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
