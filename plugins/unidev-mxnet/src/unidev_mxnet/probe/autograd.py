"""Gradients, using MXNet's own calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

import mxnet as mx  # type: ignore[import-untyped]
import numpy as np
from mxnet import autograd

from unidev import unsupported
from unidev.contract import AutogradProbe

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from unidev.contract import Array, Device, Tensor


class MxnetAutogradProbe(AutogradProbe):
    """Uses ``attach_grad``, ``record`` and ``backward``. MXNet has no ``requires_grad``."""

    def gradients(
        self, function: Callable[..., Tensor], arrays: Sequence[Array], devices: Sequence[Device]
    ) -> Sequence[Tensor | None]:
        """The buffers that ``backward`` wrote; None for the others."""
        with mx.util.np_shape(True), mx.util.np_array(True):
            xs = [_variable(*given) for given in zip(arrays, devices, strict=True)]
            with autograd.record():
                total = function(*xs).sum()
            total.backward()
            return [x.grad if x._fresh_grad else None for x in xs]

    second_order = unsupported(
        "few of MXNet's operators have a second derivative, and multiplication does not",
        "https://github.com/apache/mxnet/blob/1.9.1/python/mxnet/autograd.py#L278",
    )


def _variable(array: Array, device: Device) -> Tensor:
    x = mx.np.array(np.ascontiguousarray(array).reshape(array.shape), ctx=device.native)
    x.attach_grad()
    return x
