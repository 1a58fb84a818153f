"""The seed of one run of the tests."""

from __future__ import annotations

import os
import zlib


def session_seed(variable: str) -> int:
    """What the environment says; else another one in each run, for a message to name."""
    # The processes of pytest-xdist must draw the same.
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))
    return int(os.environ.get(variable, zlib.crc32(run.encode()) % 1000))
