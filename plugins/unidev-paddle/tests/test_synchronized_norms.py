"""``DataParallel(…, batch_norm="synchronized")`` on Paddle's own layers."""

from __future__ import annotations

from typing import Any

import paddle
import pytest
from training_checks import check_norms

import unidev


class Frozen(paddle.nn.BatchNorm2D):  # type: ignore[misc]  # Paddle is untyped
    def forward(self, x: Any) -> Any:
        """As it is."""
        return x


def net(*layers: Any) -> Any:
    made = paddle.nn.Sequential(*layers)
    paddle.seed(1)
    for x in made.parameters():
        x.set_value(paddle.uniform(x.shape, min=0.5, max=1.5))
    return made


def channels_last() -> Any:
    nn = paddle.nn
    norms = nn.BatchNorm2D(3, data_format="NHWC"), nn.BatchNorm2D(3, momentum=0.5)
    return net(nn.Conv2D(2, 3, 1, data_format="NHWC"), norms[0], nn.Linear(3, 3), norms[0])


def three_axes() -> Any:
    nn = paddle.nn
    return net(nn.Conv1D(2, 3, 1), nn.BatchNorm1D(3), nn.BatchNorm1D(3))


def global_ones() -> Any:
    nn = paddle.nn
    return net(nn.Linear(2, 3), nn.BatchNorm1D(3, use_global_stats=True), nn.BatchNorm1D(3))


def computed(model: Any, x: Any) -> Any:
    return model(x)


def test_the_whole_batch() -> None:
    cases = [(channels_last, (4, 4, 2)), (three_axes, (2, 5)), (global_ones, (2,))]
    check_norms("paddle", cases, computed)


def test_what_cannot_be_synchronized_is_named() -> None:
    nn = paddle.nn
    normed = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1D(2))
    for model, said in (
        (nn.Linear(2, 2), "no layers such as paddle.nn.BatchNorm2D"),
        (nn.Sequential(Frozen(2)), "its Frozen has a forward of its own"),
        (nn.Sequential(nn.BatchNorm(2)), "its BatchNorm has a forward of its own"),
    ):
        with pytest.raises(unidev.UnsupportedOperation, match=said):
            unidev.DataParallel(model, batch_norm="synchronized")
    unidev.DataParallel(normed, batch_norm="synchronized")
