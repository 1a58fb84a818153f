"""Versions of frameworks."""

from __future__ import annotations

import sys
from importlib import metadata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unidev.contract.backend import Backend


def framework_version(backend: Backend) -> str:
    """The framework's ``__version__``, else its distribution's version, else ``unknown``."""
    module = sys.modules.get(backend.spec.framework)
    found = getattr(module, "__version__", None)
    if isinstance(found, str):
        return found
    for distribution in metadata.packages_distributions().get(backend.spec.framework, ()):
        return metadata.version(distribution)
    return "unknown"
