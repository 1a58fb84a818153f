"""For pytest: a test in which simulated GPUs lose a race fails (``--unidev-late``)."""

from __future__ import annotations

import contextlib
import os
import sys
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
    from unidev.backends.discovery import backend_specs
    from unidev.backends.loading import simulator_of
    from unidev.errors import UnidevError

    found: list[str] = []
    for spec in backend_specs().values():
        if spec.framework in sys.modules:
            with contextlib.suppress(UnidevError):  # it has no simulator
                found += simulator_of(spec).new_races()
    return found
