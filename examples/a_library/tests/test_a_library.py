"""Each function, on each framework that is installed and on each device."""

from collections.abc import Callable
from typing import Any

import unidev
from a_library import mask_of, one_hot

Check = Callable[..., None]


def test_one_hot(
    unidev_backend: unidev.Backend, unidev_device: unidev.Device, unidev_result_device: Check
) -> None:
    labels = unidev.array([2, 0], device=unidev_device)
    found: Any = one_hot(labels, 3)
    unidev_result_device(found, like=labels)
    assert unidev.to_numpy(found).tolist() == [[False, False, True], [True, False, False]]


def test_mask_of(
    unidev_backend: unidev.Backend, unidev_device: unidev.Device, unidev_result_device: Check
) -> None:
    lengths = unidev.array([0, 2], device=unidev_device)
    found: Any = mask_of(lengths, 3)
    unidev_result_device(found, like=lengths)
    assert unidev.to_numpy(found).tolist() == [[False, False, False], [True, True, False]]
