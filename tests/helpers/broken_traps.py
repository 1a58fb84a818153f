"""A trap for libraries with one function broken, in the pytest that a test of traps starts."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

MUTANT = """
    import pkgutil
    from contextlib import nullcontext
    from unidev_pytest import expectations, strays, traps

    *owner, name = "{name}".split(".")
    owner = pkgutil.resolve_name(":".join(["{module}", *owner]))
    was = getattr(owner, name)
    setattr(owner, name, {broken})
"""

HOME = os.path.expanduser("~")
"""With the cache of builds, which pytester's own home lacks."""


def runner(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run pytest in a process of its own, with two simulated GPUs and more options."""
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    monkeypatch.setenv("HOME", HOME)
    options = ("-p", "unidev_pytest", "--unidev-simulate", "2", "-p", "no:cacheprovider")
    return partial(pytester.runpytest_subprocess, *options)


def is_red(
    pytester: pytest.Pytester, run: Callable[..., Any], check: Callable[..., None], broken: str
) -> None:
    """Fail unless ``check``, a test, fails with ``broken``, such as ``module:name = lambda: 1``."""
    what, _, value = broken.partition(" = ")
    module, _, name = what.partition(":")
    pytester.makepyfile(mutant=MUTANT.format(module=module, name=name, broken=value))
    ended = []

    def run_broken(*arguments: Any, **variables: str) -> Any:
        ended.append(run(*arguments, "-p", "mutant", **variables))
        return ended[-1]

    with pytest.raises((AssertionError, pytest.fail.Exception)):
        check(pytester, run_broken)
    assert {each.ret for each in ended} <= {0, 1}, "the mutant itself does not work"
