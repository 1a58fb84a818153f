"""Models on JAX: Flax's modules, which are in ``modules``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unidev.contract import unsupported

if TYPE_CHECKING:
    from unidev.contract import Backend, Models


def make_models(backend: Backend) -> Models:
    """``JaxModels``, which imports Flax, or the reason why models are unsupported."""
    try:
        from unidev_jax.models.modules import JaxModels
    except ImportError as error:
        return unsupported(  # type: ignore[no-any-return]
            f"models need Flax, which cannot be imported ({error}): pip install flax"
        )
    return JaxModels(backend)
