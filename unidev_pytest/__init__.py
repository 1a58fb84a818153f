"""unidev's plugin for pytest: ``devices``, ``guard`` and ``traps``.

pytest loads it in every run of an environment that has unidev, also where no test uses unidev. So
it stands beside the package ``unidev``, not in it, imports only pytest, and imports unidev when a
test, a fixture or an option needs it.
"""

import contextlib
import os
import re
from importlib.util import find_spec
from typing import TextIO

import pytest

pytest_plugins = (
    "unidev_pytest.devices",
    "unidev_pytest.guard",
    "unidev_pytest.races",
    "unidev_pytest.traps",
)

_PLUGIN = "unidev_conformance.pytest_plugin"
_SUITE = re.compile(r"unidev[._/-]conformance(?![^.:/])")


@pytest.hookimpl(tryfirst=True)  # before pytest refuses options of a suite that is missing
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Refuse other names of the conformance suite, and its own if it is not installed."""
    options = early_config.known_args_namespace
    named = [_SUITE.match(each) for each in options.file_or_dir if options.pyargs]
    found = next(filter(None, named), None)
    if found is None:
        return
    is_missing = find_spec("unidev_conformance") is None
    if is_missing or found[0] != "unidev_conformance":
        after = " after `pip install ./plugins/unidev-conformance` in unidev's repository"
        raise pytest.UsageError(
            "the conformance suite is the distribution unidev-conformance: run `pytest --pyargs "
            f"unidev_conformance --unidev-backend NAME`{after * is_missing}"
        )
    if not early_config.pluginmanager.has_plugin(_PLUGIN):
        raise pytest.UsageError(f"the conformance suite needs its plugin: add `-p {_PLUGIN}`")


_kept_stderr: int | None = None
with contextlib.suppress(OSError):  # the process has none
    _kept_stderr = os.dup(2)
"""pytest's first stderr: a simulator that is built must not look like a test that hangs."""


def stderr() -> TextIO | None:
    """That stream while pytest keeps what is printed; None while stderr is the process's own."""
    if _kept_stderr is None:
        return None
    with contextlib.suppress(OSError):  # closed meanwhile
        if not os.path.samestat(os.fstat(2), os.fstat(_kept_stderr)):
            return open(_kept_stderr, "w", encoding="utf-8", errors="replace", closefd=False)
    return None
