"""What a test needs beside the core: left out without it, and an error in nox's sessions."""

from __future__ import annotations

import os
from importlib.util import find_spec

import pytest


def need(group: str, *modules: str, install: str) -> None:
    """Skip the test, or the file, without ``modules``; fail where ``GROUP_REQUIRED`` is set.

    Each session of nox sets the variable of what it installs.
    """
    __tracebackhide__ = True  # the reason stands at the line of the test
    missing = [name for name in modules if find_spec(name.partition(".")[0]) is None]
    if not missing:
        return
    reason = f"not installed: {', '.join(missing)} ({install})"
    if f"{group.upper()}_REQUIRED" in os.environ:
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason, allow_module_level=True)
