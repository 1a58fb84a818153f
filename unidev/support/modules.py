"""The state of modules."""

from __future__ import annotations

import sys


def is_being_imported(name: str) -> bool:
    """Whether an import of the module has begun and not ended, so that names may be missing."""
    spec = getattr(sys.modules.get(name), "__spec__", None)
    return bool(getattr(spec, "_initializing", False))
