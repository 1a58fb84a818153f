"""The frameworks' own calls, against which unidev is measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable


class OwnCalls(NamedTuple):
    """What one would write without unidev, for tensor ``x`` on ``device``."""

    stay: tuple[str, Callable[[Any, Any], object]]
    """A move to where the tensor is: its name, and the call on (x, native device)."""
    copy: tuple[str, Callable[[Any], object]]
    """The cheapest true copy that keeps the gradient."""
    zeros: tuple[str, Callable[[int, Any], object]]
    """float32 zeros, made on the device."""


def own_calls(backend: str) -> OwnCalls:
    """The calls of one framework; imports it."""
    return _CALLS[backend]()


def _torch() -> OwnCalls:
    import torch

    return OwnCalls(
        ("x.to(device)", lambda x, device: x.to(device)),
        ("x.clone()", lambda x: x.clone()),
        ("torch.zeros", lambda n, device: torch.zeros(n, device=device)),
    )


def _tensorflow() -> OwnCalls:
    import tensorflow as tf

    def stay(x: Any, device: Any) -> Any:
        with tf.device(device):
            return tf.identity(x)

    def zeros(n: int, device: Any) -> Any:
        with tf.device(device):
            return tf.zeros(n)

    # DeepCopy keeps the gradient once a gradient is registered for it, as the plugin does.
    return OwnCalls(
        ("with tf.device(d): tf.identity(x)", stay),
        ("tf.raw_ops.DeepCopy(x=x)", lambda x: tf.raw_ops.DeepCopy(x=x)),
        ("tf.zeros", zeros),
    )


def _paddle() -> OwnCalls:
    import paddle

    def zeros(n: int, device: Any) -> Any:
        return paddle.zeros([n], device=device)

    return OwnCalls(
        ("x.to(place)", lambda x, device: x.to(device)),
        ("x.clone()", lambda x: x.clone()),
        ("paddle.zeros", zeros),
    )


def _mxnet() -> OwnCalls:
    import mxnet as mx

    return OwnCalls(
        ("x.as_in_ctx(ctx)", lambda x, device: x.as_in_ctx(device)),
        ("x.copy()", lambda x: x.copy()),
        ("mx.np.zeros", lambda n, device: mx.np.zeros(n, ctx=device)),
    )


def _numpy() -> OwnCalls:
    import numpy as np

    return OwnCalls(
        ("numpy.asarray(x)", lambda x, _device: np.asarray(x)),
        ("x.copy()", lambda x: x.copy()),
        ("numpy.zeros", lambda n, _device: np.zeros(n, np.float32)),
    )


_CALLS: dict[str, Callable[[], OwnCalls]] = {
    "numpy": _numpy,
    "torch": _torch,
    "tensorflow": _tensorflow,
    "paddle": _paddle,
    "mxnet": _mxnet,
}
