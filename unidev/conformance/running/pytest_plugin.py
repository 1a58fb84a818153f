"""The suite's options for pytest.

An entry point, since ``--pyargs`` ignores options of a package's ``conftest.py``. It is loaded in
every pytest run of the environment: it imports only pytest, and does nothing unless a backend is
named.
"""

from __future__ import annotations

from pathlib import Path

import pytest

_CHECKS = Path(__file__).parent.parent / "checks"
_PACKAGE = "unidev.conformance"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options for `pytest --pyargs unidev.conformance`."""
    group = parser.getgroup("unidev-conformance", "unidev: judge a backend")
    group.addoption("--unidev-backend", metavar="NAME", help="the backend to judge, such as torch")
    group.addoption(
        "--unidev-profile", metavar="PROFILE", default="tensor",
        help="which set of checks (default: tensor)",
    )  # fmt: skip
    group.addoption(
        "--unidev-simulate", metavar="N", type=int,
        help="how many simulated GPUs; 0: the host's own devices (default: UNIDEV_SIMULATE)",
    )  # fmt: skip
    group.addoption(
        "--unidev-only", metavar="ID,ID…", default="", help="these checks only, such as copy.zero_d"
    )
    group.addoption("--unidev-exclude", metavar="ID,ID…", default="", help="leave these checks out")
    group.addoption("--unidev-events", metavar="FILE", help="append a line of JSON for each event")


def pytest_configure(config: pytest.Config) -> None:
    """Hand over to the session if a backend is named."""
    if config.getoption("unidev_backend"):
        from unidev.conformance.running.session import ConformanceSession

        config.pluginmanager.register(ConformanceSession(config), "unidev-conformance-session")
    elif any(_is_the_suite(argument) for argument in config.args):
        raise pytest.UsageError(
            "the conformance suite judges one backend: pass --unidev-backend NAME, or run "
            "`unidev conform NAME`."
        )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Without a backend the checks are not tests: a run over all of unidev ignores them."""
    if config.getoption("unidev_backend"):
        return None
    return True if collection_path == _CHECKS or _CHECKS in collection_path.parents else None


def _is_the_suite(argument: str) -> bool:
    name = argument.partition("::")[0]
    if name == _PACKAGE or name.startswith(f"{_PACKAGE}.checks"):
        return True
    path = Path(name).absolute()
    return path == _CHECKS or _CHECKS in path.parents
