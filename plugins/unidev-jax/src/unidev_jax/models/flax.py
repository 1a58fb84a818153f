"""Flax, as the modules that need it take it: for mypy it is Any, as JAX is."""

from __future__ import annotations

from importlib import import_module
from typing import Any

nnx: Any = import_module("flax.nnx")
