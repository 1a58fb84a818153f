"""Every run of pytest in this checkout: what the core's tests see, and what was left out."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Add two plugins, but not where the suite of an editable install judges a user's backend."""
    if config.rootpath == Path(__file__).parent:
        _keep_caches_elsewhere(config)
        # Children import what a test has written into their folder; those about it set it.
        os.environ.pop("PYTHONSAFEPATH", None)
        import hiding
        import left_out

        config.pluginmanager.register(hiding)
        config.pluginmanager.register(left_out)


def _keep_caches_elsewhere(config: pytest.Config) -> None:
    """Each user has caches, outside of the checkout, which may be read-only or somebody else's."""
    user = os.getuid() if hasattr(os, "getuid") else "user"
    caches = Path(tempfile.gettempdir(), f"unidev-tests-of-{user}")
    os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", str(caches / "hypothesis"))
    if not os.access(Path(__file__).parent / "unidev", os.W_OK):
        # Each of hundreds of children would compile all that it imports.
        os.environ.setdefault("PYTHONPYCACHEPREFIX", str(caches / "compiled"))
    # In pyproject.toml it would be an error together with `-p no:cacheprovider`.
    has_cache = config.pluginmanager.has_plugin("cacheprovider")
    if has_cache and config.getini("cache_dir") == ".pytest_cache":  # the user has named none
        config._inicache["cache_dir"] = str(caches / "pytest")
