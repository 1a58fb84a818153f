"""What ``replicate`` and ``broadcast`` of containers refuse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import unidev

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize("function", [unidev.replicate, unidev.broadcast])
def test_refused(gpus: list[unidev.Device], function: Callable[..., Any]) -> None:
    with pytest.raises(unidev.DeviceSpecError, match="at least one device"):
        function(np.zeros(2), [])
    with pytest.raises(unidev.NotATensorError, match="no tensors"):
        function({}, gpus)
    with pytest.raises(unidev.BackendMismatchError, match="torch"):
        function(np.zeros(2), [unidev.Device("torch", "gpu", 0)])


def test_a_broadcast_of_tensors_on_two_devices_is_refused(gpus: list[unidev.Device]) -> None:
    tree = [unidev.ones(2, device=gpu) for gpu in gpus[:2]]
    with pytest.raises(unidev.DeviceMismatchError, match="gpu:1"):
        unidev.broadcast(tree, gpus)
