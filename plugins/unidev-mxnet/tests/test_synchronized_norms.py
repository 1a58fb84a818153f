"""``DataParallel(…, batch_norm="synchronized")`` on Gluon's own layers."""

from __future__ import annotations

from typing import Any

import mxnet as mx
import numpy as np
import pytest
from mxnet.gluon import nn
from training_checks import check_norms

import unidev


class Own(nn.BatchNorm):  # type: ignore[misc]  # MXNet is untyped
    def hybrid_forward(self, F: Any, x: Any, **arrays: Any) -> Any:
        """As it is."""
        return x


class Branches(nn.HybridBlock):  # type: ignore[misc]
    """Norms beside one another: MXNet's threads come to either first."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = (nn.Dense(3, in_units=2) for _ in range(2))
        self.norm, self.other = (nn.BatchNorm(axis=-1, in_channels=3) for _ in range(2))
        self.last = nn.BatchNorm(scale=False, center=False, in_channels=3)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Their sum, normalised."""
        return self.last(self.norm(self.first(x)) * 2 + self.other(self.second(x)))


def branches() -> Any:
    mx.npx.set_np()
    return filled(Branches())


def images() -> Any:
    made = nn.HybridSequential()
    made.add(nn.Conv2D(3, 1, in_channels=2), nn.BatchNorm(in_channels=3, momentum=0.5))
    return filled(made)


def filled(net: Any) -> Any:
    net.initialize()
    for number, x in enumerate(net.collect_params(".*(weight|bias|gamma|beta)").values()):
        array = mx.np.array if mx.util.is_np_array() else mx.nd.array
        x.set_data(array(np.arange(np.prod(x.shape)).reshape(x.shape) / 4 + number / 3))
    return net


def computed(model: Any, x: Any) -> Any:
    return model(x if mx.util.is_np_array() else x.as_nd_ndarray())


def test_the_whole_batch() -> None:
    check_norms("mxnet", [(images, (2, 4, 4)), (branches, (2,))], computed)


def test_what_cannot_be_synchronized_is_named() -> None:
    own, dense, normed = nn.HybridSequential(), nn.Dense(2, in_units=2), nn.HybridSequential()
    own.add(Own(in_channels=2))
    normed.add(nn.BatchNorm(in_channels=2))
    for net in (own, dense, normed):
        net.initialize()
    for model, said in (
        (dense, "no gluon.nn.BatchNorm"),
        (own, "its Own has a forward of its own"),
    ):
        with pytest.raises(unidev.UnsupportedOperation, match=said):
            unidev.DataParallel(model, batch_norm="synchronized")
    unidev.DataParallel(normed, batch_norm="synchronized")
    normed.hybridize()
    with pytest.raises(unidev.UnsupportedOperation, match="hybridize"):
        unidev.DataParallel(normed, batch_norm="synchronized")
