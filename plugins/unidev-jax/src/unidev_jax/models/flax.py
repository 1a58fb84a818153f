"""Flax, as the modules that need it take it: for mypy it is Any, as JAX is."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

OLDEST = (0, 12, 8)
"""The variables of those before lack attributes that unidev reads (seen in 0.12.0 to 0.12.3)."""


def check_version(version: str) -> None:
    """Raise ImportError if this version of Flax is too old."""
    if tuple(map(int, re.findall(r"\d+", version)[:3])) < OLDEST:
        raise ImportError(
            f"Flax {version} is too old: unidev needs {'.'.join(map(str, OLDEST))} or later, which "
            "needs JAX 0.10"
        )


check_version(import_module("flax").__version__)
nnx: Any = import_module("flax.nnx")
