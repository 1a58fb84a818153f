"""For pytest: a test in which simulated GPUs lose a race fails (``--unidev-late``)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.hookimpl(hookwrapper=True)  # the old kind, which every version of pytest supports
def pytest_runtest_call() -> Iterator[None]:
    """Fail with the lines of its races, which are the program's own."""
    outcome: Any = yield
    races = _new_races() if os.environ.get("UNIDEV_SIMULATE_LATE") else []
    if races and outcome.excinfo is None:
        outcome.force_exception(pytest.fail.Exception("\n".join(races), pytrace=False))


def _new_races() -> list[str]:
    from unidev.backends.races import late_simulators

    return [race for simulator in late_simulators() for race in simulator.new_races()]
