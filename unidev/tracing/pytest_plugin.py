"""For pytest: tests during which no tensor may change device unless that is asked for.

    @pytest.mark.transfer_guard("forbid")
    def test_a_step_reads_nothing_back(): ...

The mark, or the fixture of the same name (which forbids), guards the test itself, not the fixtures
that it needs. It loads in every pytest run of the environment: it imports nothing but pytest, and
the guard only when a test has one.
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
    """``unidev.transfer_guard``; a test that has it runs in ``transfer_guard("forbid")``.

    ``with transfer_guard("allow"):`` is the way out. A mark says otherwise for the whole test.
    """
    from unidev.tracing.transfer_guard import transfer_guard

    return transfer_guard


@pytest.hookimpl(hookwrapper=True)  # the old kind, which any pytest has
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Guard the test, where it asks for that."""
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
