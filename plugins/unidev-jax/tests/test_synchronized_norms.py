"""``DataParallel(…, batch_norm="synchronized")`` on Flax's own layers."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from flax import nnx
from training_checks import check_norms

import unidev


class Frozen(nnx.BatchNorm):  # type: ignore[misc]  # Flax's types are partial
    def __call__(self, x: Any) -> Any:
        """As it is."""
        return x


def channels_last() -> Any:
    rngs = nnx.Rngs(1)
    return nnx.Sequential(
        nnx.BatchNorm(2, rngs=rngs), nnx.Conv(2, 3, (1, 1), rngs=rngs),
        nnx.BatchNorm(3, rngs=rngs, momentum=0.5), nnx.Linear(3, 3, rngs=rngs),
        nnx.BatchNorm(3, rngs=rngs, use_scale=False),
    )  # fmt: skip


def channels_first() -> Any:
    rngs = nnx.Rngs(2)
    norms = [nnx.BatchNorm(4, axis=1, use_fast_variance=fast, rngs=rngs) for fast in (True, False)]
    averaging = nnx.BatchNorm(3, use_running_average=True, rngs=rngs)
    return nnx.Sequential(norms[0], nnx.Linear(2, 3, rngs=rngs), averaging, norms[1], jnp.tanh)


def computed(model: Any, x: Any) -> Any:
    return model(x)


def test_the_whole_batch() -> None:
    check_norms("jax", [(channels_last, (4, 4, 2)), (channels_first, (4, 2))], computed)


def test_what_cannot_be_synchronized_is_named() -> None:
    rngs = nnx.Rngs(0)
    normed = nnx.Sequential(nnx.Linear(2, 2, rngs=rngs), nnx.BatchNorm(2, rngs=rngs))
    for model, said in (
        (nnx.Linear(2, 2, rngs=rngs), "no flax.nnx.BatchNorm"),
        (nnx.Sequential(Frozen(2, rngs=rngs)), "its Frozen has a __call__ of its own"),
        (nnx.BatchNorm(2, axis_name="rows", rngs=rngs), "its BatchNorm has an axis_name"),
    ):
        with pytest.raises(unidev.UnsupportedOperation, match=said):
            unidev.DataParallel(model, batch_norm="synchronized")
    with pytest.raises(unidev.UnsupportedOperation, match="one device for each worker"):
        unidev.DataParallel(normed, ["cpu", "gpu"], batch_norm="synchronized")
    unidev.DataParallel(normed, batch_norm="synchronized")
    layers = unidev.active_backend().layers
    with (
        layers.synchronized(normed, pytest.fail),  # called by nobody
        pytest.raises(unidev.UnsupportedOperation, match="can wait for other workers"),
    ):
        nnx.jit(computed)(normed, jnp.ones((3, 2)))
    assert type(normed.layers[1]) is nnx.BatchNorm
    assert jax.process_count() == 1
