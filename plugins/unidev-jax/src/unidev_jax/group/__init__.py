"""JAX's collectives between processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unidev.contract import GroupEngine, unsupported
from unidev_jax.group.setting import LEAST, is_known

if TYPE_CHECKING:
    from unidev.contract import Backend


def make_engine(backend: Backend) -> GroupEngine:
    """``JaxEngine``, or the reason why there is none: then workers exchange through the host."""
    if not is_known():
        return unsupported(  # type: ignore[no-any-return]
            f"the group of workers needs JAX {LEAST[0]}.{LEAST[1]} or later: before, the death of "
            "one worker ended the others"
        )
    from unidev_jax.group.engine import JaxEngine

    return JaxEngine(backend)
