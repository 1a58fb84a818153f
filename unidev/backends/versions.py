"""Versions of frameworks."""

from __future__ import annotations

import re
import sys
import warnings
from importlib import metadata
from typing import TYPE_CHECKING

from unidev.contract.backend_spec import CONTRACT_VERSION
from unidev.errors import UntestedVersionWarning

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


def warn_of_versions(backend: Backend) -> None:
    """Warn if the framework is newer than the releases that its plugin was tested with.

    And if the plugin was written for the last version of the contract. Warns once, where the
    backend is loaded: the warnings' filters may make that an error, and the backend is loaded
    nevertheless.
    """
    spec = backend.spec
    if spec.is_adapted:
        warnings.warn(
            f"{spec.plugin or spec.name} was written for version {spec.contract_version} of "
            f"unidev's contract, and this is version {CONTRACT_VERSION}. It works as before. For "
            f"its author: `Layers.before` gets function(layer, x), no longer function(x); "
            f"docs/contract-{CONTRACT_VERSION}.md in unidev's repository has all that changes.",
            DeprecationWarning,
            stacklevel=2,
        )
    if spec.tested_until is None:
        return
    found = framework_version(backend)
    tested = release(spec.tested_until)
    if release(found)[: len(tested)] > tested:
        warnings.warn(
            f"untested version: unidev's backend {spec.name!r} was tested with {spec.framework} up "
            f"to {spec.tested_until}, and this is {found}. Most things work as before; if one does "
            f"not, try {spec.tested_until}. To silence this: PYTHONWARNINGS='ignore:untested "
            'version\', or warnings.filterwarnings("ignore", category='
            "unidev.errors.UntestedVersionWarning) before the first use of the framework.",
            UntestedVersionWarning,
            stacklevel=2,
        )


def release(version: str) -> tuple[int, ...]:
    """The numbers at the start: (2, 14, 1) of ``2.14.1+cu130`` or ``2.14.1rc2``, () of ``dev``."""
    numbers = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, numbers[0].split("."))) if numbers else ()
