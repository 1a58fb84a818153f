"""A plugin of pytest: the core's tests do not see the frameworks and plugins that are installed.

They count what they find, and must pass wherever the core is tested. Children inherit it, by a
``sitecustomize`` on PYTHONPATH.
"""

from __future__ import annotations

import importlib
import os
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).parents[2]
FOLDER = str(Path(__file__).with_name("without_frameworks"))
OF_SUITE = ROOT / "plugins" / "unidev-conformance" / "tests"
SEE_ALL = ("everywhere", "libraries", "stand_in")
"""Folders of tests about what is installed."""

_spec = spec_from_file_location("without_frameworks", f"{FOLDER}/sitecustomize.py")
assert _spec is not None
assert _spec.loader is not None
_hidden = module_from_spec(_spec)
_spec.loader.exec_module(_hidden)

_set_aside: dict[str, ModuleType] = {}
_loaded: list[dict[Any, Any]] = []


def pytest_collectstart(collector: pytest.Collector) -> None:
    """Before a file of tests is imported."""
    if isinstance(collector, pytest.File):
        hide(hidden=is_hidden_from(collector.path))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> None:
    """Before the fixtures of a test, of whatever scope."""
    hide(hidden=is_hidden_from(item.path))


def is_hidden_from(path: Path) -> bool:
    """Whether tests in this file are the core's, or the suite's, which judge NumPy's backend."""
    tests = ROOT / "tests"
    is_core = path.is_relative_to(tests) and path.relative_to(tests).parts[0] not in SEE_ALL
    return is_core or path.is_relative_to(OF_SUITE)


def hide(*, hidden: bool) -> None:
    """Hide what is installed from this process and its children, or show it again."""
    if (_hidden.Hiding in sys.meta_path) == hidden:
        return
    paths = [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
    if hidden:
        _hidden.start()
        sys.path.insert(0, FOLDER)  # children get it from here, too
        os.environ["PYTHONPATH"] = os.pathsep.join([FOLDER, *paths])
        _forget()
        for name in [name for name in sys.modules if _is_framework(name)]:
            _set_aside[name] = sys.modules.pop(name)
    else:
        sys.meta_path[sys.meta_path.index(_hidden.Hiding)] = PathFinder
        sys.path.remove(FOLDER)
        paths.remove(FOLDER)
        if paths:
            os.environ["PYTHONPATH"] = os.pathsep.join(paths)
        else:
            del os.environ["PYTHONPATH"]
        _forget()
        sys.modules.update(_set_aside)
        _set_aside.clear()
    importlib.invalidate_caches()


def _is_framework(name: str) -> bool:
    root = name.partition(".")[0]
    return root in _hidden.FRAMEWORKS or root.removeprefix("unidev_") in _hidden.FRAMEWORKS


def _forget() -> None:
    """What unidev has found and loaded, if it is imported; each of the two states has its own."""
    global _loaded  # noqa: PLW0603  a process has one state
    if "unidev.backends.discovery" not in sys.modules:
        return
    from unidev import device
    from unidev.backends import discovery, loading

    discovery._found = None
    tables: tuple[dict[Any, Any], ...] = (
        loading.loaded_backends, loading.backends_by_type, loading.device_getters, loading.copiers,
        loading.openers, loading.judges, device._devices,
    )  # fmt: skip
    others = _loaded or [{} for _ in tables]
    _loaded = [dict(table) for table in tables]
    for table, other in zip(tables, others, strict=True):
        table.clear()
        table.update(other)
    loading._types_of_no_tensor.clear()
    loading._backends_by_model_type.clear()
