"""``pin``: what the core checks and passes on; the memory itself is each backend's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import unidev


@pytest.fixture
def pinned(two_gpus: None, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What NumPy's backend was asked to pin, which it does not do by itself."""
    asked: list[Any] = []

    def pin(self: Any, x: Any) -> Any:
        asked.append(x)
        return x.copy()

    monkeypatch.setattr(type(unidev.active_backend()), "pinned", pin)
    return asked


def test_a_batch_is_pinned_once_for_each_tensor(pinned: list[Any]) -> None:
    x = np.ones(3)
    batch = unidev.pin({"x": x, "again": (x,), "n": 3})
    assert [each is x for each in pinned] == [True]
    assert batch["x"] is batch["again"][0]
    assert batch["n"] == 3


def test_a_tensor_on_a_gpu_is_refused(pinned: list[Any]) -> None:
    x = unidev.zeros(3, device="gpu:1")
    with pytest.raises(unidev.UnsupportedOperation, match="pinning a tensor on gpu:1"):
        unidev.pin([np.ones(3), x])


def test_where_there_is_no_pinned_memory_it_says_why() -> None:
    with pytest.raises(unidev.UnsupportedOperation, match="NumPy does not use GPUs"):
        unidev.pin({"x": np.ones(3)})
    assert unidev.pin({"x": [1, "a"]}) == {"x": [1, "a"]}
    with pytest.raises(unidev.NotATensorError):
        unidev.pin("a")  # not a container either


def test_a_lack_of_memory_names_the_host(pinned: list[Any], monkeypatch: Any) -> None:
    def fails(self: Any, x: Any) -> Any:
        raise RuntimeError("CUDA error: out of memory")

    monkeypatch.setattr(type(unidev.active_backend()), "pinned", fails)
    with pytest.raises(unidev.OutOfDeviceMemoryError, match="pinning a tensor of shape"):
        unidev.pin(np.ones(3))
