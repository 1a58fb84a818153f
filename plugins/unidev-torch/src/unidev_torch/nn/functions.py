"""Torch's functions behind ``unidev.nn.functional``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.nn import functional as F  # noqa: N812  everybody's name for it

from unidev.contract import Functions

if TYPE_CHECKING:
    Pair = tuple[int, int]


_NO_LABEL = -(2**63)


class TorchFunctions(Functions):
    """``torch.nn.functional``, whose images are channels first too."""

    def linear(
        self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None
    ) -> torch.Tensor:
        """``F.linear``."""
        return F.linear(x, weight, bias)

    def conv2d(
        self,
        x: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        stride: Pair,
        padding: Pair,
    ) -> torch.Tensor:
        """``F.conv2d``."""
        return F.conv2d(x, weight, bias, stride, padding)

    def avg_pool2d(self, x: torch.Tensor, kernel_size: Pair, stride: Pair) -> torch.Tensor:
        """``F.avg_pool2d``."""
        return F.avg_pool2d(x, kernel_size, stride)

    def relu(self, x: torch.Tensor) -> torch.Tensor:
        """``torch.relu``."""
        return torch.relu(x)

    def tanh(self, x: torch.Tensor) -> torch.Tensor:
        """``torch.tanh``."""
        return torch.tanh(x)

    def softmax_cross_entropy(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """``F.cross_entropy`` with every label counted: by default it ignores -100."""
        return F.cross_entropy(logits, labels, ignore_index=_NO_LABEL)

    def mean_squared_error(self, predictions: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """``F.mse_loss``."""
        return F.mse_loss(predictions, targets)
