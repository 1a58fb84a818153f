"""A pytest of its own for each test of unidev's plugin, and backends beside NumPy's for it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]

PLUGIN = """
    from unidev import BackendSpec, hookimpl
    from unidev.backends.numpy_backend import NumpySimulator

    @hookimpl
    def unidev_register_backend():
        return BackendSpec(
            name="{module}", contract_version=3, framework="{framework}",
            install="pip install numpy", load="{module}_backend:Own", {simulator}
            namespaces=("unidev",),
        )
"""
OWN = """
    from unidev.backends.numpy_backend.backend import NumpyBackend

    class Own(NumpyBackend):
        pass
"""


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs pytest with unidev's plugin and no other in a folder of its own."""
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    monkeypatch.setenv("PYTHONPATH", path)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)

    def run(*options: str, **variables: str) -> pytest.RunResult:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        return pytester.runpytest_subprocess("-p", "unidev_pytest", "-rs", "-v", *options)

    return run


@pytest.fixture
def add_backend(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Adds a backend beside NumPy's."""

    def add(
        module: str, framework: str = "numpy", backend: str = OWN, *, simulates: bool = True
    ) -> None:
        simulator = "simulator=NumpySimulator," if simulates else ""
        source = PLUGIN.format(module=module, framework=framework, simulator=simulator)
        pytester.makepyfile(**{module: source, f"{module}_backend": backend})
        monkeypatch.setenv("UNIDEV_PLUGINS", module)

    return add
