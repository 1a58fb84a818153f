"""Models on JAX: trees, and Flax's modules, which are in ``modules``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unidev.contract import TreeModels

if TYPE_CHECKING:
    from unidev.contract import AnyModels, Backend


def make_models(backend: Backend) -> AnyModels:
    """``JaxModels``, which imports Flax; where that cannot be imported, models are trees alone."""
    try:
        from unidev_jax.models.modules import JaxModels
    except ImportError:
        return TreeModels(backend)
    return JaxModels(backend)
