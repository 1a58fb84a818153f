"""Functions of labels and lengths, for the tensors of any framework, on any device."""

from typing import Any

import unidev

__all__ = ["mask_of", "one_hot"]


def one_hot(labels: Any, classes: int) -> Any:
    """``(n, classes)`` bools: whether ``labels[i]``, of shape ``(n,)``, is that class."""
    return labels[:, None] == unidev.arange(classes, device=unidev.device_of(labels))


def mask_of(lengths: Any, width: int) -> Any:
    """``(n, width)`` bools: True at the first ``lengths[i]`` positions of row ``i``."""
    return lengths[:, None] > unidev.arange(width, device=unidev.device_of(lengths))
