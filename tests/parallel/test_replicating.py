"""``replicate`` and ``broadcast`` of containers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import unidev

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize("function", [unidev.replicate, unidev.broadcast])
def test_copies(gpus: list[unidev.Device], function: Callable[..., Any]) -> None:
    w = unidev.array(np.arange(6.0).reshape(2, 3)[:, ::2], device=gpus[1])
    tree = {"w": w, "tied": [w], "flag": unidev.array([True], device=gpus[1]), "n": 3}
    copies = function(tree, [gpus[0], gpus[1], gpus[1]])
    for copied, device in zip(copies, [gpus[0], gpus[1], gpus[1]], strict=True):
        assert unidev.device_of(copied) is device
        assert copied["tied"][0] is copied["w"]
        assert copied["n"] == 3
        np.testing.assert_array_equal(unidev.to_numpy(copied["w"]), [[0, 2], [3, 5]])
        assert unidev.to_numpy(copied["flag"]).tolist() == [True]
    for name in ("w", "flag"):
        xs = [tree[name], *(copied[name] for copied in copies)]
        assert not any(unidev.shares_memory(a, b) for a in xs for b in xs if a is not b)


def test_a_broadcast_makes_few_copies(gpus: list[unidev.Device]) -> None:
    tree = [unidev.ones(2, device=gpus[0]) for _ in range(20)]
    with unidev.trace_transfers() as trace:
        unidev.broadcast(tree, gpus)
    assert [str(transfer.target) for transfer in trace.transfers] == ["gpu:1", "gpu:2", "gpu:3"]


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
