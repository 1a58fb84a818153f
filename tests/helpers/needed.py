"""What a test needs beside the core: left out without it, and an error in nox's sessions."""

from __future__ import annotations

import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

import pytest

_WITH_TESTS = "pip install -e '.[test]'"
TOOLS = {
    **dict.fromkeys(
        (
            "build", "click", "editables", "hatch_fancy_pypi_readme", "hatchling", "hypothesis",
            "jinja2", "jsonschema", "markdown_it", "matplotlib", "mypy", "psutil", "pynvml",
            "rich", "tomli", "yaml",
        ),
        _WITH_TESTS,
    ),
    **dict.fromkeys(("cosmic_ray", "parso"), "nox -t full -s core"),
    **dict.fromkeys(
        ("ipykernel", "jupytext", "nbclient", "nbformat"), "pip install -e '.[notebooks]'"
    ),
    "py_mini_racer": "nox -s docs",
    "sklearn": "pip install -e '.[examples]'",
    "unidev_conformance": "pip install -e plugins/unidev-conformance",
}  # fmt: skip
"""Modules that tests import and the core does not, and the command that installs each."""


_CLI = ("click", "rich", "psutil")
NEEDED_BY = {
    "tests/cli": _CLI,
    "tests/bench/test_bench_report.py": ("jinja2",),
    "tests/cli/test_cli_bench.py": ("jinja2", "matplotlib"),
    "plugins/unidev-conformance/tests": ("unidev_conformance",),
    "tests/parallel": ("psutil",),
    "tests/distributions": ("build", "hatchling", "hatch_fancy_pypi_readme"),
    "tests/tensors/test_peak_memory.py": ("psutil",),
    "tests/doctor": (*_CLI, "pynvml"),
    "tests/everywhere": (*_CLI, "matplotlib", "sklearn"),
    "tests/system/test_progress.py": ("rich",),
    "tests/test_example_backends.py": ("unidev_conformance",),
    "tests/tracing/test_late_changes.py": _CLI,
}
"""What the tests in a folder, or a file, need beside what they import: their children do."""


def missing_by(file: str) -> str | None:
    """What the tests of this file of the checkout need, and is not installed."""
    needed = {*NEEDED_BY.get(file.rpartition("/")[0], ()), *NEEDED_BY.get(file, ())}
    reasons = (missing_tool(ModuleNotFoundError(name=name)) for name in sorted(needed))
    return next(filter(None, reasons), None)


_FOR_MUTATION = ("cosmic_ray", "parso")  # which one session installs; the other tools, each


def missing_tool(error: BaseException | None) -> str | None:
    """Which tool is not installed, if that caused the error, and the command that installs it.

    None if the session of nox has installed it: then the error stands.
    """
    while error is not None:
        if isinstance(error, ModuleNotFoundError):
            name = (error.name or "").partition(".")[0]
            group = "MUTATION" if name in _FOR_MUTATION else "TOOLS"
            is_required = f"{group}_REQUIRED" in os.environ
            if name in TOOLS and not is_required and find_spec(name) is None:
                return f"not installed: {name} ({TOOLS[name]})"
        error = error.__cause__ or error.__context__
    return None


def need(group: str, *modules: str, install: str) -> None:
    """Skip the test, or the file, without ``modules``; fail where ``GROUP_REQUIRED`` is set.

    Each session of nox sets the variable of what it installs.
    """
    __tracebackhide__ = True  # the reason stands at the line of the test
    missing = [name for name in modules if find_spec(name.partition(".")[0]) is None]
    if not missing:
        return
    _leave_out(group, f"not installed: {', '.join(missing)} ({install})")


def need_program(group: str, name: str, *, install: str) -> str:
    """The path of a program, beside this interpreter or on PATH; without it as ``need``."""
    __tracebackhide__ = True
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    found = shutil.which(name, path=path)
    if found is None:
        _leave_out(group, f"not installed: {name} ({install})")
    return found


def _leave_out(group: str, reason: str) -> NoReturn:
    __tracebackhide__ = True
    if f"{group.upper()}_REQUIRED" in os.environ:
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason, allow_module_level=True)
