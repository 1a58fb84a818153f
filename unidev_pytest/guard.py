"""For pytest: tests in which implicit transfers between devices are errors.

    @pytest.mark.transfer_guard("forbid")
    def test_a_step_reads_nothing_back(): ...

The mark, or the fixture of the same name (which forbids), guards the test itself, not its fixtures.
The guard is imported when a test uses one.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from unidev_pytest.devices import check_traced

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from unidev.tracing.transfer_guard import transfer_guard as guard_type

GUARD = "transfer_guard"


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
    mark = item.get_closest_marker(GUARD)
    if mark is None and GUARD not in getattr(item, "fixturenames", ()):
        yield
        return
    from unidev.tracing.transfer_guard import transfer_guard as guarded

    if mark is not None and (mark.args or mark.kwargs):
        guard = guarded(*mark.args, **mark.kwargs)
    else:
        guard = guarded("forbid")
    with guard:
        check_traced(item, GUARD)
        yield


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Iterator[None]:
    """Let a transfer that was stopped show the test's own lines; ``--full-trace`` shows all."""
    errors = sys.modules.get("unidev.errors")  # else no guard has raised
    found = call.excinfo
    if (
        found is not None
        and errors is not None
        and isinstance(found.value, errors.TransferForbiddenError)
        and not item.config.getoption("fulltrace", False)
    ):
        last: TracebackType | None = None
        entry: TracebackType | None = found.tb
        while entry is not None:
            last = last if _is_unidevs(entry.tb_frame.f_globals) else entry
            entry = entry.tb_next
        if last is not None:
            last.tb_next = None
    yield


def _is_unidevs(namespace: dict[str, Any]) -> bool:
    """Whether these are the globals of unidev or of a plugin of its."""
    name = str(namespace.get("__name__", "")).partition(".")[0]
    return name == "unidev" or name.startswith("unidev_")
