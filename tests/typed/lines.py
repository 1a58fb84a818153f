"""Lines for a type checker, which never run: those marked ``refused`` must be, and no others."""

from __future__ import annotations

from typing import Any

from typing_extensions import assert_type

import unidev


class Native:
    """As ``torch.device``."""

    type: str
    index: int


class Context:
    """As ``mx.Context`` and TensorFlow's ``LogicalDevice``."""

    device_type: str


class Net:
    """A model."""


class Optimizer:
    """An optimizer."""


def devices(x: dict[str, int], net: Net, native: Native, context: Context, unknown: Any) -> None:
    unidev.as_device("gpu:1")
    unidev.as_device(unidev.cpu())
    unidev.as_device(native)
    unidev.as_device(context)
    unidev.as_device(unknown)
    unidev.zeros(2, device=native)
    unidev.zeros(2, device=None)
    assert_type(unidev.copy_to(x, "cpu"), dict[str, int])
    unidev.as_device(3.5)  # refused: arg-type
    unidev.as_device(1)
    unidev.as_device(None)  # refused: arg-type
    unidev.as_device(net)  # refused: arg-type
    unidev.copy_to(x, 3.5)  # refused: arg-type
    unidev.as_in_device(x, b"gpu")  # refused: arg-type
    unidev.as_in_device(x, unidev.cpu)  # refused: arg-type
    unidev.zeros(2, device=b"gpu")  # refused: arg-type
    unidev.synchronize(3.5)  # refused: arg-type
    unidev.memory(3.5)  # refused: arg-type


def placing(net: Net, optimizer: Optimizer, unknown: Any) -> None:
    assert_type(unidev.place(net, "gpu:0"), Net)
    assert_type(unidev.place(net, "gpu:0", optimizer=None), Net)
    assert_type(unidev.place(net, "gpu:0", optimizer=optimizer), tuple[Net, Optimizer])
    unidev.place(net, 3.5)  # refused: call-overload
    unidev.place(net)  # refused: call-overload


def loss_of(net: Net, x: list[int], /, scale: float, *, label: str = "") -> complex:
    raise NotImplementedError


def gradients(net: Net) -> None:
    function = unidev.value_and_grad(loss_of)
    assert_type(function(net, [1], 2.0, label="a"), tuple[complex, Any])
    loss, _ = function(net, [1], scale=2.0)
    assert_type(loss, complex)
    unidev.value_and_grad(lambda net, x: x)(net, [1])
    unidev.value_and_grad(lambda: 1.0)(net)  # refused: call-arg
    function(net, [1])  # refused: call-arg
    function(net, [1], "2")  # refused: arg-type
    function([1], net, 2.0)  # refused: arg-type
    function(net, [1], 2.0, labels="a")  # refused: call-arg
    unidev.value_and_grad(3)  # refused: arg-type
