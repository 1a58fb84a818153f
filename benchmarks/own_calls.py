"""The frameworks' own calls, with which unidev is compared.

``x`` is a tensor on ``device``, ``native`` the framework's object for it, ``n`` a size, ``a`` an
array on the host; ``y`` and ``total`` are tensors on other devices.
"""

from __future__ import annotations

from typing import NamedTuple

import unidev

VERBS = {name: getattr(unidev, name) for name in unidev.__all__}
"""For the statements that are compared; some of these are imported when they are first used."""


class OwnCalls(NamedTuple):
    """The code that a user would write without unidev."""

    setup: str
    stay: str
    """A move to the device that the tensor is already on."""
    copy: str
    """The cheapest true copy that keeps the gradient."""
    zeros: str
    """New zeros on the device."""
    put: str
    """The constructor that copies."""
    sent: str
    """The body of a function that copies x to y's device."""
    added: str = "total + sent(y, total)"
    """``y``'s copy, added to ``total`` on its device."""


OWN_CALLS = {
    "numpy": OwnCalls(
        "import numpy",
        stay="numpy.asarray(x)",
        copy="x.copy()",
        zeros="numpy.zeros(n, numpy.float32)",
        put="numpy.array(a)",
        sent="return unidev.copy_to(x, unidev.device_of(y))",
    ),
    "torch": OwnCalls(
        "import torch",
        stay="x.to(native)",
        copy="x.clone()",
        zeros="torch.zeros(n, device=native)",
        put="torch.tensor(a)",
        sent="return x.to(y.device, copy=True)",
    ),
    "tensorflow": OwnCalls(
        """
import tensorflow as tf

def added(x, y):
    with tf.device(x.device): return x + y
""",
        stay="with tf.device(native): tf.identity(x)",
        # Keeps the gradient once one is registered for it, as the plugin does.
        copy="tf.raw_ops.DeepCopy(x=x)",
        zeros="with tf.device(native): tf.zeros(n)",
        put="tf.constant(a)",
        sent="with tf.device(y.device): return tf.raw_ops.DeepCopy(x=x)",
        added="added(total, sent(y, total))",
    ),
    "paddle": OwnCalls(
        "import paddle",
        stay="x.to(native)",
        copy="x.clone()",
        zeros="paddle.zeros([n], device=native)",
        put="paddle.to_tensor(a)",
        sent="return x._copy_to(y.place, True)",
    ),
    "mxnet": OwnCalls(
        "import mxnet as mx",
        stay="x.as_in_ctx(native)",
        copy="x.copy()",
        zeros="mx.np.zeros(n, ctx=native)",
        put="mx.np.array(a)",
        sent="return x.copyto(y.ctx)",
    ),
    "jax": OwnCalls(
        "import jax, jax.numpy as jnp",
        stay="jax.device_put(x, native)",
        copy="jnp.copy(x)",
        zeros="jnp.zeros(n, device=native)",
        put="jnp.array(a)",
        sent="return jax.device_put(x, y.device, may_alias=False)",
    ),
}
