"""The frameworks' own calls, with which unidev is compared.

``x`` is a tensor on ``device``, ``native`` the framework's object for it, ``n`` a size.
"""

from __future__ import annotations

from typing import NamedTuple


class OwnCalls(NamedTuple):
    """The code that a user would write without unidev."""

    setup: str
    stay: str
    """A move to the device that the tensor is already on."""
    copy: str
    """The cheapest true copy that keeps the gradient."""
    zeros: str
    """New zeros on the device."""


OWN_CALLS = {
    "numpy": OwnCalls(
        "import numpy",
        stay="numpy.asarray(x)",
        copy="x.copy()",
        zeros="numpy.zeros(n, numpy.float32)",
    ),
    "torch": OwnCalls(
        "import torch",
        stay="x.to(native)",
        copy="x.clone()",
        zeros="torch.zeros(n, device=native)",
    ),
    "tensorflow": OwnCalls(
        "import tensorflow as tf",
        stay="with tf.device(native): tf.identity(x)",
        # Keeps the gradient once one is registered for it, as the plugin does.
        copy="tf.raw_ops.DeepCopy(x=x)",
        zeros="with tf.device(native): tf.zeros(n)",
    ),
    "paddle": OwnCalls(
        "import paddle",
        stay="x.to(native)",
        copy="x.clone()",
        zeros="paddle.zeros([n], device=native)",
    ),
    "mxnet": OwnCalls(
        "import mxnet as mx",
        stay="x.as_in_ctx(native)",
        copy="x.copy()",
        zeros="mx.np.zeros(n, ctx=native)",
    ),
    "jax": OwnCalls(
        "import jax, jax.numpy as jnp",
        stay="jax.device_put(x, native)",
        copy="jnp.copy(x)",
        zeros="jnp.zeros(n, device=native)",
    ),
}
