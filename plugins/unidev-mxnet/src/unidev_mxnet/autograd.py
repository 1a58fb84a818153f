"""Gradients by ``mxnet.autograd``."""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Any

import mxnet as mx  # type: ignore[import-untyped]
import numpy as np
from mxnet import autograd
from mxnet.ndarray.sparse import BaseSparseNDArray  # type: ignore[import-untyped]

from unidev.contract import Autograd, fork_safe_lock, nested_backward, reaches
from unidev.errors import UnsupportedOperation
from unidev_mxnet.scopes import numpy_semantics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from unidev.contract import Tensor


_UNREACHABLE = re.compile(r"respect to the (\d+)-th variable because it is unreachable")
_NOT_RECORDED = "not in a computational graph"
_one_at_a_time = fork_safe_lock()
"""While MXNet differentiates, it takes the variables' marks away, which another thread needs to
record with them: seen in 1.9.1, where two such threads end the process."""


class MxnetAutograd(Autograd):
    """Uses ``autograd.grad``, which makes new arrays and does not write gradient buffers."""

    def leaf(self, x: Tensor) -> Tensor:
        """``x`` if it has a gradient buffer, else a new variable that shares the memory of ``x``.

        A variable needs a buffer, though ``autograd.grad`` never writes it: ``x``, detached.
        """
        if x.grad is not None:
            return x
        made = x.detach()
        autograd.mark_variables([made], [x.detach()])
        return made

    def gradients(
        self, loss_of: Callable[[], Tensor], leaves: Sequence[Tensor]
    ) -> tuple[Tensor, Sequence[Tensor | None]]:
        """Runs in training mode, as ``autograd.record`` does; NumPy shapes if the leaves do."""
        is_numpy = isinstance(leaves[0], mx.np.ndarray)
        with _one_at_a_time, numpy_semantics() if is_numpy else contextlib.nullcontext():
            earlier = _functions.copy()
            with autograd.record():
                loss = loss_of()
            called = [each for key, each in _functions.copy().items() if key not in earlier]
            # What backward stores is not to be seen in the arrays, so copies show it.
            before = [x.grad.copy() for x in leaves] if called else []
            found = _gradients(loss, list(leaves))
            if called:
                _check_all_came(called, leaves, found, before)
            return loss.detach().copy(), found

    @contextlib.contextmanager
    def _paused(self) -> Iterator[None]:
        with autograd.pause(train_mode=autograd.is_training()):
            yield

    def no_grad(self) -> AbstractContextManager[Any]:
        """``autograd.pause``, with the training mode unchanged."""
        return self._paused()

    def descend(
        self, parameters: Sequence[Tensor], gradients: Sequence[Tensor], lr: float
    ) -> Sequence[Tensor]:
        """In place; one operator per float32 parameter, since the operator's ``lr`` is float32.

        One operator for all takes longer: it waits for the last gradient.
        """
        for x in parameters:  # MXNet's own error comes at the next wait, whoever waits then
            if isinstance(x, BaseSparseNDArray):
                raise UnsupportedOperation(
                    "an sgd step of a sparse parameter",
                    "MXNet updates only one with a value in each row: use x.tostype('default')",
                )
        with numpy_semantics(), autograd.pause():
            for x, gradient in zip(parameters, gradients, strict=True):
                if x.dtype == np.float32 == gradient.dtype:
                    old = _legacy(x)
                    mx.nd.sgd_update(old, _legacy(gradient), lr=lr, wd=0.0, out=old)
                else:
                    x -= lr * gradient  # noqa: PLW2901  in place
        return parameters


_functions: dict[int, Any] = autograd.Function._registry.ref_holder
"""What MXNet keeps of each custom function of which a result is alive."""


def _check_all_came(
    called: Sequence[Any], leaves: Sequence[Tensor], found: Sequence[Any], before: Sequence[Tensor]
) -> None:
    """Refuse a custom function whose backward calls ``backward`` for more than its inputs.

    MXNet goes to one only on the way to a leaf, and knows of no way but its inputs.
    """
    lost, is_nested = set(), False
    for x, gradient in zip(leaves, found, strict=True):
        if gradient is None:
            lost.add(id(x))
        else:
            gradient.wait_to_read()  # custom functions run in threads of MXNet's
    for x, old in zip(leaves, before, strict=True):
        if x.grad.asnumpy().tobytes() != old.asnumpy().tobytes():
            x.grad[:] = old
            is_nested = True
    if is_nested or reaches(called, lost):
        raise nested_backward("an autograd.Function")


def _gradients(loss: Tensor, leaves: list[Tensor]) -> list[Tensor | None]:
    """Retries without leaves that MXNet reports as unreachable, before it computes anything."""
    found: list[Tensor | None] = [None] * len(leaves)
    wanted = list(range(len(leaves)))
    while wanted:
        try:
            computed = autograd.grad(loss, [leaves[i] for i in wanted])
        except mx.MXNetError as error:
            message = str(error)
            match = _UNREACHABLE.search(message)
            if match is not None:
                del wanted[int(match[1]) - 1]
                continue
            if _NOT_RECORDED in message:
                return found
            raise
        for i, gradient in zip(wanted, computed, strict=True):
            found[i] = gradient.as_np_ndarray() if _is_numpy(leaves[i]) else gradient
        return found
    return found


def _is_numpy(x: Tensor) -> bool:
    return isinstance(x, mx.np.ndarray)


def _legacy(x: Tensor) -> Tensor:
    return x.as_nd_ndarray() if isinstance(x, mx.np.ndarray) else x
