"""What the plugins' tests of ``DataParallel`` share: a batch, a loss, and how replicas compare."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import unidev

if TYPE_CHECKING:
    from collections.abc import Callable

THREE = ["gpu:0", "gpu:1", "gpu:2"]


def batch(rows: int = 31) -> tuple[Any, Any]:
    """Four inputs and two targets a row, on the first device."""
    numbers = np.random.default_rng(rows).standard_normal((rows, 6)).astype("float32")
    x, y = (unidev.array(part, device="gpu:0") for part in (numbers[:, :4], numbers[:, 4:]))
    return x, y


def squares(model: Callable[..., Any], x: Any, y: Any) -> Any:
    """The loss, where tensors have a method ``mean``."""
    return ((model(x) - y) ** 2).mean()


def arrays(model: Any) -> list[np.ndarray[Any, Any]]:
    """The values of its parameters."""
    return [unidev.to_numpy(x) for x in unidev.parameters(model).values()]


def check_replicas(net: unidev.DataParallel) -> None:
    """Each replica has the bits of the model, on its own device."""
    expected = [x.tobytes() for x in arrays(net)]
    for index, device in enumerate(net.devices):
        with net.replica(index) as model:
            assert [x.tobytes() for x in arrays(model)] == expected
            assert unidev.device_of(model) is device
    assert unidev.device_of(net) is net.devices[0]


def check_like(net: unidev.DataParallel, alone: Any) -> None:
    """The model and its replicas have the parameters of ``alone``, but for rounding."""
    for one, other in zip(arrays(net), arrays(alone), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
    check_replicas(net)
