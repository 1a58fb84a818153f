"""For pytest: tests in which implicit transfers between devices are errors.

    @pytest.mark.transfer_guard("forbid")
    def test_a_step_reads_nothing_back(): ...

The mark, or the fixture of the same name (which forbids), guards the test itself, not its fixtures.
The guard is imported when a test uses one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from unidev.tracing.transfer_guard import transfer_guard as guard_type

_NAME = "transfer_guard"


def pytest_configure(config: pytest.Config) -> None:
    """Make the mark known to ``--strict-markers``."""
    config.addinivalue_line(
        "markers",
        'transfer_guard(mode="forbid"): run the test in unidev.transfer_guard(mode), '
        '"allow", "log" or "forbid".',
    )


@pytest.fixture
def transfer_guard() -> type[guard_type]:
    """``unidev.transfer_guard``; a test that uses it runs in ``transfer_guard("forbid")``.

    ``with transfer_guard("allow"):`` permits transfers in a block; a mark, in the entire test.
    """
    from unidev.tracing.transfer_guard import transfer_guard

    return transfer_guard


@pytest.hookimpl(hookwrapper=True)  # the old kind, which every version of pytest supports
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Guard the test if it has the mark or the fixture."""
    mark = item.get_closest_marker(_NAME)
    if mark is None and _NAME not in getattr(item, "fixturenames", ()):
        yield
        return
    from unidev.tracing.transfer_guard import transfer_guard as guarded

    if mark is not None and (mark.args or mark.kwargs):
        guard = guarded(*mark.args, **mark.kwargs)
    else:
        guard = guarded("forbid")
    with guard:
        yield
