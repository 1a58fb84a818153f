"""JAX, as all other modules take it: its types are partial, so that mypy takes it for Any."""

from __future__ import annotations

from importlib import import_module
from typing import Any

OLDEST = (0, 10)
"""Before, 64-bit arrays may be narrowed even where they are enabled (copies in 0.7.1)."""

jax: Any = import_module("jax")
if jax.__version_info__ < OLDEST:
    raise ImportError(f"JAX {jax.__version__} is too old for unidev-jax, which needs 0.10 or later")
jnp: Any = import_module("jax.numpy")
