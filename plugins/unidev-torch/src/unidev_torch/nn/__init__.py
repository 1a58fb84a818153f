"""``unidev.nn`` on PyTorch: torch's functions; its layers are in ``layers``."""

from __future__ import annotations

from functools import partial

import torch
from torch.nn import functional as F  # noqa: N812  everybody's name for it

from unidev.contract import Functions


class TorchFunctions(Functions):
    """``torch.nn.functional``, whose images are channels first too."""

    linear = staticmethod(F.linear)
    conv2d = staticmethod(F.conv2d)
    avg_pool2d = staticmethod(F.avg_pool2d)
    max_pool2d = staticmethod(F.max_pool2d)
    flatten = staticmethod(partial(torch.flatten, start_dim=1))
    relu = staticmethod(torch.relu)
    tanh = staticmethod(torch.tanh)
    mean_squared_error = staticmethod(F.mse_loss)

    def softmax_cross_entropy(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """``cross_entropy``, which takes int64 and uint8 alone, and ignores -100 unless told."""
        if labels.dtype is not torch.int64:
            labels = labels.long()
        return F.cross_entropy(logits, labels, ignore_index=-(2**63))
