"""Every run of pytest in this checkout: what the core's tests see, and what was left out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

# They hold no doctests. Two of one module's name cannot both be looked through for them.
collect_ignore_glob = ["conftest.py", "*/conftest.py"]


def pytest_configure(config: pytest.Config) -> None:
    """Add two plugins, but not where the suite of an editable install judges a user's backend."""
    if config.rootpath == Path(__file__).parent:
        import hiding
        import left_out

        config.pluginmanager.register(hiding)
        config.pluginmanager.register(left_out)
