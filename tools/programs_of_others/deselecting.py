"""A pytest plugin: ``--deselect-pattern`` leaves tests out by a pattern of their name in JUnit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from programs_of_others.suites import Reason

if TYPE_CHECKING:
    import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption("--deselect-pattern", action="append", default=[])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what a pattern matches; the names are those of the JUnit file."""
    patterns = [Reason(each, "", "") for each in config.getoption("--deselect-pattern")]
    out = [item for item in items if any(each.is_about(item.nodeid) for each in patterns)]
    if out:
        config.hook.pytest_deselected(items=out)
        items[:] = [item for item in items if item not in set(out)]
