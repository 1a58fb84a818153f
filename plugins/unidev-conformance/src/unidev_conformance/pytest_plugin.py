"""For pytest: the conformance suite, ``pytest --pyargs unidev_conformance --unidev-backend NAME``.

Its options are a plugin's, since ``--pyargs`` ignores options of a package's ``conftest.py``.
Does nothing unless the suite is named.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

_PACKAGE = "unidev_conformance"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options for `pytest --pyargs unidev_conformance`."""
    group = parser.getgroup("unidev-conformance", "unidev: judge a backend")
    group.addoption(
        "--unidev-profile", metavar="PROFILE", default="tensor",
        help="which set of checks (default: tensor)",
    )  # fmt: skip
    group.addoption(
        "--unidev-only", metavar="ID,ID…", default="", help="these checks only, such as copy.zero_d"
    )
    group.addoption("--unidev-exclude", metavar="ID,ID…", default="", help="leave these checks out")
    group.addoption("--unidev-events", metavar="FILE", help="append a line of JSON for each event")


def pytest_configure(config: pytest.Config) -> None:
    """Hand over to the session if the suite is named, and a backend."""
    if not is_for_suite(config):
        return
    if not config.pluginmanager.has_plugin("unidev_pytest.devices"):
        raise pytest.UsageError(
            "the suite needs unidev's plugin for pytest: add `-p unidev_pytest`"
        )
    if not config.getoption("unidev_backend"):
        raise pytest.UsageError(
            "the conformance suite judges one backend: pass --unidev-backend NAME, or run "
            "`unidev conform NAME`."
        )
    others = [argument for argument in config.args if not _is_the_suite(argument)]
    if others:
        raise pytest.UsageError(
            f"the conformance suite runs alone: run `pytest {' '.join(others)}` separately, or "
            "`unidev conform NAME`, which needs no pytest options."
        )
    if config.getoption("dist", "no") != "no":  # pytest-xdist's
        raise pytest.UsageError("the conformance suite runs in one process: add `-n 0`")
    from unidev_conformance.running.session import ConformanceSession

    config.pluginmanager.register(ConformanceSession(config), "unidev-conformance-session")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Unless the suite is named its checks are not tests: a run over all of unidev ignores them."""
    checks = _checks()
    is_check = collection_path == checks or checks in collection_path.parents
    return True if is_check and not is_for_suite(config) else None


def is_for_suite(config: pytest.Config) -> bool:
    """Whether the command line names the conformance suite."""
    return any(_is_the_suite(argument) for argument in config.args)


@cache
def _is_the_suite(argument: str) -> bool:
    name = argument.partition("::")[0]
    if name == _PACKAGE or name.startswith(f"{_PACKAGE}.checks"):
        return True
    path = Path(name).absolute()
    return path == _checks() or _checks() in path.parents


@cache
def _checks() -> Path:
    """The folder of the checks."""
    return Path(__file__).with_name("checks")
