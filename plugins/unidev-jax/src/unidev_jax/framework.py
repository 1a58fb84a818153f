"""JAX, as all other modules take it: its types are partial, so that mypy takes it for Any."""

from __future__ import annotations

from importlib import import_module
from typing import Any

jax: Any = import_module("jax")
jnp: Any = import_module("jax.numpy")
