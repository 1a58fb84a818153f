"""Gradients by ``mxnet.autograd``."""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Any

import mxnet as mx  # type: ignore[import-untyped]
import numpy as np
from mxnet import autograd

from unidev.contract import Autograd
from unidev_mxnet.scopes import numpy_semantics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    Tensor = Any

_UNREACHABLE = re.compile(r"respect to the (\d+)-th variable because it is unreachable")
_NOT_RECORDED = "not in a computational graph"


class MxnetAutograd(Autograd):
    """``autograd.grad``, which makes new arrays and leaves gradient buffers alone."""

    def leaf(self, x: Tensor) -> Tensor:
        """What has a gradient buffer is a variable; else a variable that is on the memory of ``x``.

        A variable needs a buffer, though ``autograd.grad`` never writes there: ``x`` itself is it.
        """
        if x.grad is not None:
            return x
        made = x.detach()
        autograd.mark_variables([made], [x.detach()])
        return made

    def gradients(
        self, loss_of: Callable[[], Tensor], leaves: Sequence[Tensor]
    ) -> tuple[Tensor, Sequence[Tensor | None]]:
        """In training mode, as ``autograd.record`` is; shapes as NumPy's where the leaves are."""
        is_numpy = isinstance(leaves[0], mx.np.ndarray)
        with numpy_semantics() if is_numpy else contextlib.nullcontext():
            with autograd.record():
                loss = loss_of()
            found = _gradients(loss, list(leaves))
            return loss.detach(), found

    @contextlib.contextmanager
    def _paused(self) -> Iterator[None]:
        with autograd.pause(train_mode=autograd.is_training()):
            yield

    def no_grad(self) -> AbstractContextManager[Any]:
        """``autograd.pause``, but training mode stays as it is."""
        return self._paused()

    def descend(
        self, parameters: Sequence[Tensor], gradients: Sequence[Tensor], lr: float
    ) -> Sequence[Tensor]:
        """In place; by one operator each where they are of float32, which is what it takes lr as.

        One operator for many takes longer: it waits for the last gradient.
        """
        with numpy_semantics(), autograd.pause():
            for x, slope in zip(parameters, gradients, strict=True):
                if x.dtype == np.float32 == slope.dtype:
                    old = _legacy(x)
                    mx.nd.sgd_update(old, _legacy(slope), lr=lr, wd=0.0, out=old)
                else:
                    x -= lr * slope  # noqa: PLW2901  in place
        return parameters


def _gradients(loss: Tensor, leaves: list[Tensor]) -> list[Tensor | None]:
    """By each leaf; MXNet names one that is out of reach, and then has computed nothing yet."""
    found: list[Tensor | None] = [None] * len(leaves)
    wanted = list(range(len(leaves)))
    while wanted:
        try:
            slopes = autograd.grad(loss, [leaves[i] for i in wanted])
        except mx.MXNetError as error:
            message = str(error)
            match = _UNREACHABLE.search(message)
            if match is not None:
                del wanted[int(match[1]) - 1]
                continue
            if _NOT_RECORDED in message:
                return found
            raise
        for i, slope in zip(wanted, slopes, strict=True):
            found[i] = slope.as_np_ndarray() if _is_numpy(leaves[i]) else slope
        return found
    return found


def _is_numpy(x: Tensor) -> bool:
    return isinstance(x, mx.np.ndarray)


def _legacy(x: Tensor) -> Tensor:
    return x.as_nd_ndarray() if isinstance(x, mx.np.ndarray) else x
