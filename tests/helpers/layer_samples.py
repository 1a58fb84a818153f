"""A net of ``unidev.nn`` with most kinds of layers, for the tests of two plugins, and its data."""

from __future__ import annotations

from typing import Any

import numpy as np

import unidev
from unidev import nn

IMAGES = np.random.default_rng(0).standard_normal((16, 2, 8, 8)).astype("float32")
LABELS = np.arange(16) % 5


def make_net(dropout: float = 0.0) -> Any:
    unidev.seed(1)
    drop = [nn.dropout(dropout)] if dropout else []
    return nn.sequential(
        nn.conv2d(2, 4, 3, padding=1), nn.batch_norm(4), nn.tanh(), nn.avg_pool2d(2),
        nn.sequential(nn.conv2d(4, 3, 2, stride=2), nn.relu()), nn.flatten(), *drop,
        nn.dense(12, 5),
    )  # fmt: skip
